// Fresh figures without a reload: quiet while the tab is hidden or the person is doing something.
(function () {
  "use strict";
  function isBusy(region) {
    var active = document.activeElement;
    return document.hidden || region.querySelector("input:checked, details[open]") !== null ||
      (active !== null && region.contains(active) && /INPUT|TEXTAREA|SELECT/.test(active.tagName));
  }
  document.querySelectorAll("[data-live-seconds]").forEach(function (region) {
    setInterval(function () {
      if (!isBusy(region)) htmx.trigger(region, "live");
    }, Number(region.dataset.liveSeconds) * 1000);
    region.addEventListener("htmx:sendError", function () { region.dataset.stale = "1"; });
    region.addEventListener("htmx:responseError", function () { region.dataset.stale = "1"; });
    region.addEventListener("htmx:afterSwap", function () { delete region.dataset.stale; });
  });
  document.querySelectorAll("[data-tick-all]").forEach(function (all) {
    var form = all.closest("form");
    all.hidden = false;
    all.addEventListener("change", function () {
      form.querySelectorAll("input[name=chosen]").forEach(function (one) { one.checked = all.checked; });
    });
  });
})();
