/* Light or dark, before anything is drawn, so that nobody is flashed at.

   What the operating system prefers holds until somebody chooses; the choice is kept on this
   device. This is a script of its own, not a module, because a module would run after the first
   paint. */
(() => {
  const kept = () => {
    try {
      return localStorage.getItem("headrace-theme");
    } catch {
      return null; // storage is switched off: the system's preference holds
    }
  };
  const system = matchMedia("(prefers-color-scheme: dark)");
  const show = () => {
    const theme = kept() ?? (system.matches ? "dark" : "light");
    document.documentElement.dataset.theme = theme === "dark" ? "dark" : "light";
    dispatchEvent(new Event("themechange"));
  };
  show();
  system.addEventListener("change", show);
})();
