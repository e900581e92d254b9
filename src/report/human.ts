import {sameAddress} from './addresses.ts';
import {leavesOf, type Mail, type Part} from './mime.ts';

const longestText = 64 * 1024;

/** What a report says to people: its first plain text, or its first HTML without markup. Not the returned mail. */
export function humanTextOf(mail: Mail): string {
	const leaves = leavesOf(mail.root).filter(({type}) => type.startsWith('text/') && !type.includes('rfc822'));
	const part = leaves.find(({type}) => type === 'text/plain') ?? leaves.find(({type}) => type === 'text/html');
	return part ? withoutOriginal(plainTextOf(part)) : '';
}

/** A part's text, HTML without its markup, at most 64 KB. */
export function plainTextOf(part: Part): string {
	return part.type === 'text/html'
		? withoutMarkup(part.text()).slice(0, longestText)
		: part.text().slice(0, longestText);
}

const original =
	/^[ \t>-]*(?:original message (?:headers?|follows)|message headers follow|below this line is|(?:included|this) is a copy|reporting-mta[ \t]*:|return-path[ \t]*:|received[ \t]*:[ \t]*(?:from|by)\b)/im;

function withoutOriginal(text: string): string {
	const at = text.search(original);
	return at === -1 ? text : text.slice(0, at);
}

const introduction = /(?:response|error|reason|answer|reply|said|returned|message)\b[^\n]{0,80}:[ \t]*$/i;

/**
 * The paragraphs that speak of one recipient, with what they introduce. `only`: there is no other, so that what was answered
 * is about it wherever it stands.
 */
export function paragraphsOn(address: string | null, text: string, only: boolean): string {
	const paragraphs = text.split(/\n[ \t]*(?:\n[ \t]*)+/);
	const chosen = paragraphs.filter((paragraph, index) => {
		const before = paragraphs[index - 1] ?? '';
		return (
			(address !== null && names(paragraph, address)) ||
			(introduction.test(before) && (only || (address !== null && names(before, address)))) ||
			(only && introduction.test(paragraph.split('\n')[0] ?? ''))
		);
	});
	return chosen.join('\n').slice(0, 4096);
}

function names(paragraph: string, address: string): boolean {
	return paragraph.toLowerCase().includes(address.toLowerCase());
}

/** Addresses of a text that are not the reader's own. */
export function strangersIn(addresses: readonly string[], own: readonly string[]): string[] {
	return addresses.filter(one => !own.some(other => sameAddress(one, other)));
}

const unseen = /^(?:style|script|head|title)\b/i;
const lineBreaking = /^\/?(?:br|p|div|tr|li|td|h\d|table|pre|hr)\b/i;

function withoutMarkup(html: string): string {
	let text = '';
	let at = 0;
	while (at < html.length) {
		const open = html.indexOf('<', at);
		if (open === -1) {
			text += html.slice(at);
			break;
		}
		text += html.slice(at, open);
		const close = html.indexOf('>', open);
		if (close === -1) {
			break;
		}
		const tag = html.slice(open + 1, Math.min(close, open + 20));
		const [element] = unseen.exec(tag) ?? [];
		const end = element === undefined ? -1 : endOf(html, element, close);
		text += lineBreaking.test(tag) ? '\n' : '';
		at = (end === -1 ? close : end) + 1;
	}
	return text
		.replace(/&(lt|gt|amp|quot|nbsp|#39|apos);/g, (_, name: string) => entities[name] ?? ' ')
		.replace(/[ \t]{2,}/g, ' ');
}

const entities: Readonly<Record<string, string>> = {lt: '<', gt: '>', amp: '&', quot: '"', '#39': "'", apos: "'"};

/** Where an element that is not shown ends; -1: it does not. */
function endOf(html: string, element: string, from: number): number {
	const at = html.indexOf(`</${element}`, from);
	return at === -1 ? -1 : html.indexOf('>', at);
}
