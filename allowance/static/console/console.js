// What makes the console quicker to use. Every page works without it.

// --- The navigation on a narrow screen ---
const menu = document.querySelector("button.menu");
const sidebar = document.getElementById("sidebar");

function showSidebar(isOpen) {
  document.body.classList.toggle("sidebar-open", isOpen);
  menu.setAttribute("aria-expanded", String(isOpen));
}

if (menu && sidebar) {
  menu.addEventListener("click", () => {
    showSidebar(menu.getAttribute("aria-expanded") !== "true");
    if (menu.getAttribute("aria-expanded") === "true") sidebar.querySelector("a").focus();
  });
  sidebar.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
}

// --- What opens closes again: by Escape, and by a click beside it ---
const openDetails = () => document.querySelectorAll("details.account[open]");

addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  if (menu && document.body.classList.contains("sidebar-open")) {
    showSidebar(false);
    menu.focus();
  }
  for (const details of openDetails()) {
    details.open = false;
    details.querySelector("summary").focus();
  }
});

addEventListener("click", (event) => {
  for (const details of openDetails()) {
    if (!details.contains(event.target)) details.open = false;
  }
  if (document.body.classList.contains("sidebar-open") && !sidebar.contains(event.target) && !menu.contains(event.target)) {
    showSidebar(false);
  }
});

// --- "/" goes to the search ---
addEventListener("keydown", (event) => {
  const isWriting = event.target.closest?.("input, textarea, select, [contenteditable]");
  const search = document.querySelector("input[type=search]");
  if (event.key === "/" && !isWriting && search) {
    event.preventDefault();
    search.focus();
  }
});

// --- Rows become cards on a narrow screen: each cell then says which column it is ---
for (const table of document.querySelectorAll("table.data:has(thead):not(.diff, .wide)")) {
  const headers = [...table.querySelectorAll("thead th")].map((header) => header.innerText.trim());
  for (const row of table.tBodies[0]?.rows ?? []) {
    [...row.cells].forEach((cell, index) => headers[index] && cell.setAttribute("data-label", headers[index]));
  }
  table.classList.add("labelled");
}

// --- A box that scrolls can be reached by keyboard ---
const fit = new ResizeObserver((changes) => {
  for (const { target } of changes) {
    if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
    else target.removeAttribute("tabindex");
  }
});
for (const box of document.querySelectorAll(".scroll")) fit.observe(box);

// --- Copy buttons: <button class="copy" data-copy="#id"> ---
for (const button of document.querySelectorAll("button.copy[data-copy]")) {
  const said = button.textContent;
  button.setAttribute("aria-live", "polite");
  button.addEventListener("click", async () => {
    const source = document.querySelector(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(source.value ?? source.textContent.trim());
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(source);
      button.textContent = "Press Ctrl+C";
    }
    setTimeout(() => (button.textContent = said), 3000);
  });
}
