// Tagged-template markup. Interpolated values become text or attributes, never markup.
import { h, render } from "../vendor/preact.mjs";
import htm from "../vendor/htm.mjs";

export const html = htm.bind(h);
export { render };
export { useEffect, useLayoutEffect, useRef, useState } from "../vendor/hooks.mjs";
