/** The colours that a workspace's accent makes on some surfaces. All are `#rrggbb`. */
export type AccentColours = {
	/** Of a button; stands out from the surfaces (WCAG 2.2 §1.4.11). */
	readonly fill: string;
	/** Of the text on the button: black or white, whichever reads better; never below 4.5 to 1. */
	readonly onFill: string;
	/** Of links and focus rings (WCAG 2.2 §1.4.3). */
	readonly link: string;
};

type Rgb = readonly [red: number, green: number, blue: number];

const leastForShapes = 3;
const leastForText = 4.5;
const step = 0.04;

/** Keeps the accent where it can be seen on surfaces of much the same colour, else moves it away until it can. */
export function accentOn(surfaces: readonly string[], accent: string): AccentColours {
	const fill = apartFrom(surfaces, accent, leastForShapes);
	return {
		fill,
		onFill: contrast('#ffffff', fill) >= leastForText ? '#ffffff' : '#000000',
		link: apartFrom(surfaces, accent, leastForText),
	};
}

/** The contrast ratio of two colours, 1 to 21 (WCAG 2.2). */
export function contrast(one: string, other: string): number {
	const [darker = 0, lighter = 0] = [luminance(one), luminance(other)].sort((a, b) => a - b);
	return (lighter + 0.05) / (darker + 0.05);
}

function apartFrom(surfaces: readonly string[], accent: string, least: number): string {
	const end = surfaces.every(surface => contrast('#000000', surface) > contrast('#ffffff', surface)) ? 0 : 255;
	for (let share = 0; share < 1; share += step) {
		const colour = mix(accent, end, share);
		if (surfaces.every(surface => contrast(colour, surface) >= least)) {
			return colour;
		}
	}
	return end === 0 ? '#000000' : '#ffffff';
}

function mix(colour: string, end: number, share: number): string {
	const parts = rgb(colour).map(part => Math.round(part + (end - part) * share));
	return `#${parts.map(part => part.toString(16).padStart(2, '0')).join('')}`;
}

function luminance(colour: string): number {
	const [red = 0, green = 0, blue = 0] = rgb(colour).map(part => {
		const share = part / 255;
		return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
	});
	return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function rgb(colour: string): Rgb {
	const number = Number.parseInt(colour.slice(1), 16);
	return [number >> 16, (number >> 8) & 255, number & 255];
}
