// Light, dark, or as the system has it. It runs before the page is drawn, so that no page flashes in the other colours.
(() => {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => localStorage.getItem("theme") || "auto";

  function apply() {
    const isDark = chosen() === "dark" || (chosen() === "auto" && system.matches);
    document.documentElement.classList.toggle("dark", isDark);
    document.documentElement.classList.toggle("light", !isDark);
    for (const button of document.querySelectorAll("button[data-theme]")) {
      button.setAttribute("aria-pressed", String(button.dataset.theme === chosen()));
    }
    document.dispatchEvent(new Event("theme"));
  }

  apply();
  system.addEventListener("change", apply);
  addEventListener("storage", apply);
  addEventListener("DOMContentLoaded", () => {
    apply();
    for (const button of document.querySelectorAll("button[data-theme]")) {
      button.addEventListener("click", () => {
        localStorage.setItem("theme", button.dataset.theme);
        apply();
      });
    }
  });
})();
