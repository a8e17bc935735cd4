// Copying a text to the clipboard; where the browser does not allow it, the text is selected.
(function () {
  "use strict";
  function find(button) {
    var place = button.closest("[data-copies]");
    return { text: place.querySelector("textarea"), said: place.querySelector("[data-copied]") };
  }
  function byHand(found) {
    found.text.focus();
    found.text.select();
    var done = false;
    try { done = document.execCommand("copy"); } catch (refused) { done = false; }
    found.said.textContent = done ? "Copied." : "Selected: press Ctrl+C to copy it.";
  }
  // The page's figures may be swapped: the button is found anew at each click.
  document.addEventListener("click", function (event) {
    var button = event.target.closest("[data-copy]");
    if (!button) return;
    var found = find(button);
    if (navigator.clipboard && window.isSecureContext) {
      navigator.clipboard.writeText(found.text.value).then(
        function () { found.said.textContent = "Copied."; }, function () { byHand(found); });
    } else byHand(found);
  });
  function offer() {
    document.querySelectorAll("[data-copy][hidden]").forEach(function (button) { button.hidden = false; });
  }
  offer();
  document.addEventListener("htmx:afterSwap", offer);
})();
