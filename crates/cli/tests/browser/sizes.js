// What is too wide for the screen, and what is too small for a finger: WCAG 2.2 asks for 24 pixels.
((wide) => {
  const name = (element) => `${element.tagName}.${element.getAttribute("class") ?? ""}#${element.id}`;
  const isShown = (element) => element.checkVisibility({ visibilityProperty: true });
  // What scrolls by itself may be wider inside.
  const scrolls = (element) => element.parentElement?.closest(".scroll, dialog");
  const faults = [];
  const page = document.documentElement.scrollWidth;
  if (page > wide) faults.push(`the page is ${page} px wide`);
  for (const element of document.body.querySelectorAll("*")) {
    if (!isShown(element) || scrolls(element) || element.closest(".sr, svg, .leaving")) continue;
    const { right, left } = element.getBoundingClientRect();
    if (right > wide + 0.5 || left < -0.5) faults.push(`${name(element)} goes from ${left} to ${right}`);
  }
  for (const dialog of document.querySelectorAll("dialog[open]")) {
    if (dialog.scrollWidth > dialog.clientWidth) faults.push(`the dialog is ${dialog.scrollWidth} px wide inside`);
  }
  for (const target of document.querySelectorAll("a[href], button, input, [tabindex='0']")) {
    if (!isShown(target)) continue;
    const { width, height } = target.getBoundingClientRect();
    if (width < 24 || height < 24) faults.push(`${name(target)} is ${width.toFixed(1)} by ${height.toFixed(1)}`);
  }
  return faults;
})
