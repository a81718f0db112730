// What of the visible text is too weak against its background, by WCAG 2.2 AA: 4.5 to 1, or 3 to 1 where it is large.
(() => {
  const brush = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
  // Whatever way it is written.
  const read = (colour) => {
    brush.clearRect(0, 0, 1, 1);
    brush.fillStyle = colour;
    brush.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = brush.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], below) => [r, g, b].map((part, i) => part * a + below[i] * (1 - a)).concat(1);
  const light = (colour) => {
    const [r, g, b] = colour.slice(0, 3).map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [low, high] = [light(a), light(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };
  // Everything that is behind it, from the canvas on: a pattern is as bad as the worst of its colours.
  const grounds = (element) => {
    const line = [];
    for (let at = element; at; at = at.parentElement) line.unshift(getComputedStyle(at));
    let behind = [read("Canvas")];
    for (const style of line) {
      const colour = read(style.backgroundColor);
      behind = behind.map((below) => over(colour, below));
      const isWhole = style.backgroundSize === "auto";
      if (style.backgroundImage !== "none" && isWhole) {
        const drawn = style.backgroundImage.match(/(rgba?|color|oklab|oklch)\([^()]*\)/g) ?? [];
        behind = drawn.flatMap((part) => behind.map((below) => over(read(part), below)));
      }
    }
    return behind;
  };
  const weak = [];
  const judge = (element, text, colour) => {
    const style = getComputedStyle(element);
    const [, , , alpha] = read(colour);
    if (alpha === 0) return;
    let shown = 1;
    for (let at = element; at; at = at.parentElement) shown *= Number(getComputedStyle(at).opacity);
    const size = parseFloat(style.fontSize), isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const worst = Math.min(...grounds(element).map((ground) => {
      const [r, g, b, a] = read(colour);
      return contrast(over([r, g, b, a * shown], ground), ground);
    }));
    if (worst < (isLarge ? 3 : 4.5)) weak.push(`${worst.toFixed(2)} ${element.tagName}.${element.getAttribute("class") ?? ""} ${JSON.stringify(text.trim().slice(0, 40))}`);
  };
  const isShown = (element) => element.checkVisibility({ visibilityProperty: true }) && !element.closest(".sr");
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let count = 0;
  while (texts.nextNode()) {
    const text = texts.currentNode, element = text.parentElement;
    if (!text.data.trim() || element.matches("script, style") || !isShown(element)) continue;
    count++;
    judge(element, text.data, element instanceof SVGElement ? getComputedStyle(element).fill : getComputedStyle(element).color);
  }
  for (const input of document.querySelectorAll("input")) if (isShown(input)) judge(input, input.value, getComputedStyle(input).color);
  return { count, weak: [...new Set(weak)] };
})()
