/* Light or dark, before anything is drawn, so that nobody is flashed at.

   What the operating system prefers holds until somebody chooses; the choice is kept on this
   device. This is a script of its own, not a module, because a module would run after the first
   paint. */
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("headrace-theme");
  } catch {
    // storage is switched off: the system's preference holds
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
