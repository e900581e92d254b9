import fc from 'fast-check';

const surrogates = {first: 0xd800, count: 0x800};

/**
 * Any character of Unicode, for `fc.string({unit: anyChar})`. The `binary` of fast-check means the same; the table
 * that it makes of all of them takes a second of each process.
 */
export const anyChar = fc
	.integer({min: 0, max: 0x10ffff - surrogates.count})
	.map(point => String.fromCodePoint(point < surrogates.first ? point : point + surrogates.count));
