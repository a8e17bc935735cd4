// Follows the system's light or dark setting; a choice made by the person is already in the page.
(function () {
  "use strict";
  var root = document.documentElement;
  if (root.dataset.theme !== "system") return;
  var dark = window.matchMedia("(prefers-color-scheme: dark)");
  function follow() { root.dataset.bsTheme = dark.matches ? "dark" : "light"; }
  dark.addEventListener("change", follow);
  follow();
})();
