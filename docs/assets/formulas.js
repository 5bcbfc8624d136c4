// Formulas are written as \( ... \) and \[ ... \] in the pages' HTML. KaTeX, which is bundled, typesets them.
document.addEventListener("DOMContentLoaded", () => {
  renderMathInElement(document.body, {
    delimiters: [
      { left: "\\(", right: "\\)", display: false },
      { left: "\\[", right: "\\]", display: true },
    ],
  });
});
