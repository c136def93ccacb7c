// The button "Print" of receipts and statements. Without scripts it stays hidden, and the browser's own menu prints.
for (const button of document.querySelectorAll("[data-print]")) {
  button.hidden = false;
  button.addEventListener("click", () => window.print());
}
