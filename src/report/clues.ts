import type {Clues} from '../mail/report.ts';
import {addressesIn} from './addresses.ts';
import {type Field, leavesOf, type Mail} from './mime.ts';
import type {Structured} from './structured.ts';
import {stripHtml} from './text/strip-html.ts';

/** Fields of a report that say to whom it came. */
const addresseeFields: ReadonlySet<string> = new Set([
	'x-original-to',
	'delivered-to',
	'envelope-to',
	'x-envelope-to',
	'x-rcpt-to',
	'x-real-to',
	'x-forwarded-to',
	'original-recipient',
	'to',
	'cc',
	'apparently-to',
]);

const mostOfAKind = 20;
const longestClue = 320;
const longestText = 64 * 1024;

/** Collects what may identify the mail that a report is about. None of it is proof. */
export function readClues(mail: Mail, structured: Structured): Clues {
	const {fields} = mail.root;
	const status = [...(structured.status?.message ?? []), ...(structured.feedback ?? [])];
	const returned = [...structured.returned.flat(), ...pastedFields(mail)];
	const of = (list: readonly Field[], ...names: readonly string[]) =>
		list.filter(({name}) => names.includes(name)).map(({value}) => value);

	return {
		addressees: few([
			...fields.filter(({name}) => addresseeFields.has(name)).flatMap(({value}) => addressesIn(value)),
			...of(fields, 'received').flatMap(value => addressesIn(/\bfor[ \t]+(<?[^\s;]{3,320})/.exec(value)?.[1] ?? '', 1)),
		]),
		envelopeIds: few(of(status, 'original-envelope-id').map(unXtext)),
		// Reports by RFC 9477 may hold no other field of the mail than CFBL-Feedback-ID.
		refs: few([
			...of(returned, 'x-mailctl-ref', 'cfbl-feedback-id').map(value => value.trim()),
			...of(status, 'cfbl-feedback-id').map(value => value.trim()),
		]),
		messageIds: few([
			...of(returned, 'message-id').flatMap(idsIn),
			...of(status, 'original-message-id', 'x-original-message-id', 'message-id').flatMap(idsIn),
			...of(fields, 'in-reply-to', 'references').flatMap(idsIn),
			...of(returned, 'references', 'in-reply-to').flatMap(idsIn),
		]),
		returnPaths: few([
			...of(status, 'original-mail-from', 'x-postfix-sender', 'x-original-sender').flatMap(value =>
				addressesIn(value, 1),
			),
			...of(returned, 'return-path', 'x-envelope-from', 'envelope-from').flatMap(value => addressesIn(value, 1)),
			...of(returned, 'received').flatMap(value =>
				addressesIn(/envelope-(?:from|sender)[ \t=:]{1,3}(<?[^\s;)]{3,320})/i.exec(value)?.[1] ?? '', 1),
			),
		]),
		unsubscribeAddresses: few(
			of(returned, 'list-unsubscribe').flatMap(value =>
				[...value.matchAll(/mailto:([^\s?>,]{3,320})/gi)].flatMap(([, address]) =>
					addressesIn(decoded(address as string), 1),
				),
			),
		),
	};
}

const pasted =
	/^[>|* \t]{0,8}(message-id|x-mailctl-ref|cfbl-feedback-id|list-unsubscribe|return-path|in-reply-to|references)[ \t]{0,4}:[ \t]*([^\n]{0,998}(?:\n[>|]{0,4}(?![ \t]*[A-Za-z][\w-]{0,60}[ \t]*:(?!\/\/))[ \t]{1,8}[^\n]{0,998}){0,6})/gim;

/** Header fields in the text: mailers without attachments put the returned mail there. */
function pastedFields(mail: Mail): Field[] {
	const leaves = leavesOf(mail.root);
	const plain = leaves.filter(({type}) => type === 'text/plain').map(part => part.text().slice(0, longestText));
	const html = plain.length > 0 ? undefined : leaves.find(({type}) => type === 'text/html');
	const texts = html ? [stripHtml(html.text()).slice(0, longestText)] : plain.slice(0, 5);
	return texts.flatMap(text =>
		[...text.matchAll(pasted)].slice(0, mostOfAKind).map(([, name, value]) => ({
			name: (name as string).toLowerCase(),
			value: (value as string).replace(/\n[>|]*[ \t]*/g, ' '),
		})),
	);
}

/** `<a@b> <c@d>` → `a@b`, `c@d`; one without brackets as it is. */
function idsIn(value: string): string[] {
	const bracketed = [...value.matchAll(/<([^<>\s]{3,320})>/g)].map(([, id]) => id as string);
	return value.includes('<') ? bracketed : (value.match(/[^\s<>]{1,200}@[^\s<>]{1,120}/g) ?? []);
}

/** RFC 3461 §4: `+3D` is `=`. */
function unXtext(value: string): string {
	return value.trim().replace(/\+([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}

function decoded(address: string): string {
	return address.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}

function few(found: readonly string[]): string[] {
	return [...new Set(found.filter(each => each !== '' && each.length <= longestClue))].slice(0, mostOfAKind);
}
