import {type Field, type Part, readFields} from './mime.ts';

const longestHeader = 64 * 1024;
const mostMails = 5;

/** Whether a part is the mail that a report is about, or its header. */
export function isReturned(type: string): boolean {
	return /^(?:message\/(?:rfc822|global|global-headers|rfc822-headers|partial)|text\/rfc822(?:-headers?)?)$/.test(type);
}

/** The header fields of each returned mail of a report. Its body is never looked at (R3.9). */
export function returnedHeaders(leaves: readonly Part[]): Field[][] {
	return leaves
		.filter(({type}) => isReturned(type))
		.slice(0, mostMails)
		.map(part => {
			const bytes = part.body().subarray(0, longestHeader);
			const start = bytes.findIndex(byte => byte > 0x20);
			const header = bytes.subarray(Math.max(0, start));
			const end = header.indexOf('\n\n');
			return readFields(end === -1 ? header : header.subarray(0, end));
		});
}
