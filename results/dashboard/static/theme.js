/* Dark or light: as the system says, until the person says otherwise. Loaded in the head, so that no page flashes. */
(function () {
  "use strict";
  const root = document.documentElement;
  const KEY = "askevolve-theme";
  let kept = null;
  try {
    kept = localStorage.getItem(KEY);
  } catch {
    // a browser that keeps nothing follows the system
  }
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const set = (theme) => (root.dataset.theme = theme);
  set(kept === "dark" || kept === "light" ? kept : system.matches ? "dark" : "light");
  system.addEventListener("change", () => {
    if (!kept) set(system.matches ? "dark" : "light");
    window.ask?.themeChanged();
  });

  document.addEventListener("DOMContentLoaded", () => {
    const button = document.querySelector("[data-theme-switch]");
    if (!button) return;
    const show = () => {
      const other = root.dataset.theme === "dark" ? "light" : "dark";
      button.textContent = other === "dark" ? "Dark" : "Light";
      button.title = "Show all pages " + other;
    };
    button.hidden = false;
    show();
    button.addEventListener("click", () => {
      kept = set(root.dataset.theme === "dark" ? "light" : "dark");
      try {
        localStorage.setItem(KEY, kept);
      } catch {
        // it holds for this page alone
      }
      show();
      window.ask?.themeChanged();
    });
  });
})();
