// Fresh figures without a reload: quiet while the tab is hidden or the person is doing something.
(function () {
  "use strict";
  // Its counts are fresh with every page that is fetched (hx-select-oob of the page's content).
  var menu = document.getElementById("menu");
  function isBusy(region) {
    var active = document.activeElement;
    return document.hidden || region.querySelector("input[type=checkbox]:checked, details[open]:not([data-stays])") !== null ||
      document.querySelector("dialog[open]") !== null || (menu !== null && menu.contains(active)) ||
      (active !== null && region.contains(active) && /INPUT|TEXTAREA|SELECT/.test(active.tagName));
  }
  function nameOf(element) {
    return [element.tagName, element.getAttribute("href") || "", element.closest("[action]") ? element.closest("[action]").getAttribute("action") : "", element.textContent.trim()].join(" ");
  }
  // "updated 4 s ago" beside the menu: says that the figures live, and when they do not.
  var sign = document.querySelector("[data-updated]");
  var freshAt = Date.now();
  function tellAge() {
    if (sign) sign.textContent = "updated " + Math.round((Date.now() - freshAt) / 1000) + " s ago";
  }
  var regions = document.querySelectorAll("[data-live-seconds]");
  regions.forEach(function (region) {
    var seconds = Number(region.dataset.liveSeconds);
    if (!seconds) return;
    setInterval(function () {
      if (!isBusy(region)) htmx.trigger(region, "live");
    }, seconds * 1000);
    // New figures take the place of the old ones; who stood on a link stands on the same one after.
    var stoodOn = null;
    region.addEventListener("htmx:beforeSwap", function () {
      var active = document.activeElement;
      stoodOn = active !== null && active !== region && region.contains(active) ? nameOf(active) : null;
    });
    region.addEventListener("htmx:afterSwap", function () {
      if (stoodOn === null) return;
      var same = Array.prototype.find.call(region.querySelectorAll("a[href], button, summary"), function (one) {
        return nameOf(one) === stoodOn;
      });
      if (same) same.focus({ preventScroll: true });
    });
    region.addEventListener("htmx:sendError", function () { region.dataset.stale = "1"; });
    region.addEventListener("htmx:responseError", function () { region.dataset.stale = "1"; });
    region.addEventListener("htmx:afterSwap", function () { delete region.dataset.stale; freshAt = Date.now(); });
  });
  if (regions.length && sign) { sign.hidden = false; tellAge(); setInterval(tellAge, 1000); }
  document.querySelectorAll("[data-tick-all]").forEach(function (all) {
    var form = all.closest("form");
    all.hidden = false;
    all.addEventListener("change", function () {
      form.querySelectorAll("input[name=chosen]").forEach(function (one) { one.checked = all.checked; });
    });
  });
})();
