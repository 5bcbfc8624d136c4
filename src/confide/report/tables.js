// Tables that sort by a click on a head, and show the rows that contain what is typed.
"use strict";
(() => {
  function sort(button) {
    const head = button.parentElement, body = head.closest("table").tBodies[0];
    const column = head.cellIndex, up = head.getAttribute("aria-sort") !== "ascending";
    head.parentElement.querySelectorAll("th").forEach((th) => th.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const key = (row) => row.cells[column].dataset.key ?? row.cells[column].textContent;
    const compare = (a, b) => (isNaN(key(a)) || isNaN(key(b)) ? key(a).localeCompare(key(b)) : key(a) - key(b));
    const unknown = (row) => Number(key(row) === ""); // last, whichever way
    [...body.rows].sort((a, b) => unknown(a) - unknown(b) || (up ? compare(a, b) : compare(b, a))).forEach((row) => body.append(row));
  }

  function filter(field) {
    const wanted = field.value.trim().toLowerCase(), body = document.getElementById(field.dataset.filter).tBodies[0];
    for (const row of body.rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
    const shown = [...body.rows].filter((row) => !row.hidden).length;
    document.getElementById(field.dataset.told).textContent = wanted ? `${shown.toLocaleString("en")} of ${body.rows.length.toLocaleString("en")} rows` : "";
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("table.sortable thead button");
    if (button) sort(button);
  });
  document.querySelectorAll("input[data-filter]").forEach((field) => {
    field.closest("[hidden]")?.removeAttribute("hidden"); // without a script there is nothing to type into
    field.addEventListener("input", () => filter(field));
    if (field.value) filter(field);
  });
})();
