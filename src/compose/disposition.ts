import {withoutControls} from './header.ts';

const longestSegment = 60;

/** The words of a Content-Disposition field for an attachment; other than plain names are spelled by RFC 2231. */
export function disposition(filename: string): string[] {
	const name = withoutControls(filename);
	if (/^[A-Za-z0-9_-][A-Za-z0-9 ._-]*$/.test(name) && name.length <= longestSegment && !/ {2}| $/.test(name)) {
		return ['attachment;', `filename="${name}"`];
	}

	const segments = percentSegments(name);
	if (segments.length === 1) {
		return ['attachment;', `filename*=utf-8''${segments[0]}`];
	}

	return [
		'attachment;',
		...segments.map(
			(segment, index) =>
				`filename*${index}*=${index === 0 ? "utf-8''" : ''}${segment}${index < segments.length - 1 ? ';' : ''}`,
		),
	];
}

// Percent-encoded, in segments that no UTF-8 sequence spans: some readers decode each segment by itself.
function percentSegments(text: string): string[] {
	const segments: string[] = [];
	let segment = '';
	for (const character of text) {
		let encoded = '';
		for (const byte of Buffer.from(character, 'utf8')) {
			const ascii = String.fromCharCode(byte);
			encoded += /[A-Za-z0-9._-]/.test(ascii) ? ascii : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`;
		}
		if (segment.length + encoded.length > longestSegment) {
			segments.push(segment);
			segment = '';
		}
		segment += encoded;
	}
	return [...segments, segment];
}
