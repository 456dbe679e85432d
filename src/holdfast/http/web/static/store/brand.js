/** The shop's colours: moved towards black or white until they can be read, in light and in dark mode. */
const MIN_CONTRAST = 4.5;
const STEP = 0.06;
const BLACK = [0, 0, 0];
const WHITE = [255, 255, 255];

const parse = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
const format = (colour) => `#${colour.map((part) => Math.round(part).toString(16).padStart(2, "0")).join("")}`;
const mix = (from, to, share) => from.map((part, index) => part + (to[index] - part) * share);

function luminance(colour) {
  const [red, green, blue] = colour.map((part) => part / 255).map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

export function contrast(one, other) {
  const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
}

/** The colour, or the nearest to it with enough contrast on every ground. */
export function readable(hex, grounds, isDark) {
  const towards = isDark ? WHITE : BLACK;
  let colour = parse(hex);
  for (let share = STEP; share < 1 && grounds.some((ground) => contrast(colour, parse(ground)) < MIN_CONTRAST); share += STEP) {
    colour = mix(parse(hex), towards, share);
  }
  return format(colour);
}

/** The values of the theme's properties that a brand changes. */
export function brandColours({ accent, background }, isDark) {
  const colours = {};
  const ground = isDark ? "#0d1312" : (background ?? "#f7f7f4");
  if (background && !isDark) colours["--ground"] = background;
  if (accent) {
    const soft = format(mix(parse(accent), parse(ground), 0.86));
    const shown = readable(accent, [ground, isDark ? "#1d2725" : "#eeeeea", soft], isDark);
    colours["--accent"] = colours["--available"] = shown;
    colours["--accent-strong"] = format(mix(parse(shown), isDark ? WHITE : BLACK, 0.18));
    colours["--accent-soft"] = soft;
    colours["--on-accent"] = contrast(parse(shown), WHITE) >= MIN_CONTRAST ? "#ffffff" : "#000000";
  }
  return colours;
}

/** Applies them now and whenever the mode changes. By script, because the page's policy forbids styles in markup. */
export function applyBrand(brand) {
  if (!brand) return;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const properties = ["--ground", "--accent", "--available", "--accent-strong", "--accent-soft", "--on-accent"];
  const apply = () => {
    const colours = brandColours(brand, dark.matches);
    const { style } = document.documentElement;
    properties.forEach((name) => (colours[name] ? style.setProperty(name, colours[name]) : style.removeProperty(name)));
  };
  apply();
  dark.addEventListener("change", apply);
}
