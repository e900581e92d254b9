import {addressIn} from './addresses.ts';
import type {Field} from './mime.ts';

/** The fields of a delivery status (RFC 3464 §2.1): of the message, and of each recipient. */
export type DeliveryStatus = {
	readonly message: readonly Field[];
	readonly recipients: ReadonlyArray<readonly Field[]>;
	/** Something was left out because it is too long or has too many recipients. */
	readonly cut: boolean;
};

/** A report of more has no effect. */
export const mostRecipients = 100;
const mostFields = 40;
const longestValue = 8192;
/** Octets; a part is cut there. */
export const longestStatus = 256 * 1024;

const addressFields: ReadonlySet<string> = new Set(['final-recipient', 'original-recipient', 'x-actual-recipient']);
const recipientFields: ReadonlySet<string> = new Set([
	...addressFields,
	'action',
	'status',
	'remote-mta',
	'diagnostic-code',
	'last-attempt-date',
	'final-log-id',
	'will-retry-until',
	'x-supplementary-info',
]);
/** Seen twice, they begin another recipient. */
const onceEach: ReadonlySet<string> = new Set(['final-recipient', 'original-recipient', 'action']);

const field = /^([A-Za-z][A-Za-z0-9-]{1,60})[ \t]*:[ \t]*(.*)$/;
const indentedField = new RegExp(
	`^[ \\t>]+((?:${[...recipientFields, 'reporting-mta', 'arrival-date'].join('|')})[ \\t]*:.*)$`,
	'i',
);

/** Whether a text holds the fields of a delivery status: some mailers put them into a plain text. */
export function looksLikeDeliveryStatus(text: string): boolean {
	return (
		/^(?:final|original)-recipient[ \t]*:/im.test(text) && /^(?:action|status|diagnostic-code)[ \t]*:/im.test(text)
	);
}

/**
 * Reads a delivery status: blocks with blank lines between them, one block that holds all, blank lines where none belong,
 * folded lines that are not indented. `isCut`: something is missing already.
 */
export function readDeliveryStatus(text: string, isCut = false): DeliveryStatus {
	const message: Field[] = [];
	const recipients: Field[][] = [];
	for (const block of blocksOf(text.slice(0, longestStatus))) {
		const last = recipients.at(-1);
		if (last && completes(block, last)) {
			last.push(...block);
			continue;
		}
		let current: Field[] | undefined;
		for (const one of block) {
			const begins =
				recipientFields.has(one.name) && (!current || (onceEach.has(one.name) && hasField(current, one.name)));
			if (begins) {
				if (recipients.length >= mostRecipients) {
					return {message, recipients, cut: true};
				}
				current = [];
				recipients.push(current);
			}
			if ((current ?? message).length < mostFields) {
				(current ?? message).push(one);
			}
		}
	}
	return {
		message,
		recipients: recipients.map(fields => fields.slice(0, mostFields)),
		cut: isCut || text.length > longestStatus,
	};
}

/** The value of a `type; value` field without its type: `smtp; 550 …`. */
export function withoutType(value: string): string {
	return value.replace(/^[ \t]*[A-Za-z][\w-]{0,40}[ \t]*;[ \t]*/, '').trim();
}

/**
 * The address of a recipient field: any case of type, angle brackets, comments, RFC 6533 `\x{..}`. Null: no address.
 */
export function addressOf(value: string | null): string | null {
	if (value === null) {
		return null;
	}
	const plain = withoutType(value).replace(/\\x\{([0-9a-f]{1,6})\}/gi, (all, hex: string) => {
		const code = Number.parseInt(hex, 16);
		return code <= 0x10ffff && code >= 0x20 ? String.fromCodePoint(code) : all;
	});
	return plain.includes('\\x{')
		? null
		: addressIn(
				plain.replace(/\+(2B|3D)(?=[^@]*@)/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
			);
}

/** Whether a block without an address says what the recipient before it lacks: a blank line stood where none belongs. */
function completes(block: readonly Field[], last: readonly Field[]): boolean {
	return block.every(({name}) => !addressFields.has(name) && !(onceEach.has(name) && hasField(last, name)));
}

function hasField(fields: readonly Field[], name: string): boolean {
	return fields.some(field => field.name === name);
}

function* blocksOf(text: string): Generator<Field[]> {
	let block: Array<{name: string; value: string}> = [];
	for (const line of text.split('\n')) {
		if (line.trim() === '') {
			if (block.length > 0) {
				yield block;
				block = [];
			}
			continue;
		}
		const [, name, value] = field.exec(line.replace(indentedField, '$1')) ?? [];
		const last = block.at(-1);
		if (name !== undefined && value !== undefined) {
			block.push({name: name.toLowerCase(), value: value.trim().slice(0, longestValue)});
		} else if (last && last.value.length < longestValue) {
			last.value += ` ${line.trim().slice(0, longestValue)}`;
		}
	}
	if (block.length > 0) {
		yield block;
	}
}
