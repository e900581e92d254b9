const units: Readonly<Record<string, number>> = {ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000};

/** Milliseconds of `500ms 90s 5m 4h 4d`; a plain number is seconds. Undefined: it is no duration. */
export function parseDuration(text: string): number | undefined {
	const [, digits, unit = 's'] = /^(\d{1,12})(ms|s|m|h|d)?$/.exec(text) ?? [];
	return digits === undefined ? undefined : Number(digits) * (units[unit] as number);
}
