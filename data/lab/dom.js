// Element construction. Content is inserted as text: a title is never parsed as markup.

/**
 * el('p.quiet', { title: 'x', onclick: f }, 'text', node, [more]) creates an element. Class and attributes are
 * optional; attributes and children that are `false`, `null` or `undefined` are skipped.
 */
export function el(name, ...rest) {
  const [tag, ...classes] = name.split('.');
  const element = document.createElement(tag);
  if (classes.length) element.className = classes.join(' ');
  const [first] = rest;
  const plain = first !== null && typeof first === 'object' && !(first instanceof Node) && !Array.isArray(first);
  for (const [key, value] of Object.entries(plain ? rest.shift() : {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? '' : value);
  }
  const there = (child) => child !== undefined && child !== null && child !== false && child !== '';
  element.append(...rest.flat(Infinity).filter(there));
  return element;
}
