const foreign = /[^\x00-\x7f]/;
const accents = /[\u0300-\u036f]/g;
const address = /[^\s<>()[\]{};:,"'|]{1,64}@(?:[\w\u0080-\uffff-]{1,63}\.){0,8}[\w\u0080-\uffff-]{1,63}/g;
const linkPath = /\b(https?:\/\/[^\s/<>"')]{1,255})[^\s<>"')]{1,2000}/gi;
const hostWithAddress = /\b(?:unknown|[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63}){1,8})\.?[ (]{0,2}\[[\da-f.:]{3,45}\]\)?/gi;
const lineCode = /(?<=\s)[245]\d\d-(?:#?[245]\.\d{1,3}\.\d{1,3}[ :-]?)?/g;
const speaker =
	/\bhost\s{1,3}(?:\S{1,255}\s{1,3})?said:|\bwhile talking to \S{1,255}|\bremote server returned(?! unknown)/gi;
const command = /\(in reply to [^()]{1,60}\)/gi;
const emptyBrackets = /<\s?>|\(\s?\)|\[\s?\]/g;
// `BAD_RECIPIENT`, `user_unknown`.
const joints = /(?<=[a-z])_(?=[a-z])/gi;
const blanks = /\s+/g;

/** Letters without accents: a rule need not know how a host writes them (`boîte`, `boite`). */
export function unaccented(text: string): string {
	return foreign.test(text)
		? text
				.normalize('NFD')
				.replace(accents, '')
				.normalize('NFC')
				.replace(/[łŁ]/g, 'l')
				.replaceAll('ı', 'i')
				.replaceAll('ß', 'ss')
				.replaceAll('’', "'")
		: text;
}

/**
 * A reply as rules see it: without what may hold any word (addresses, paths of links, names of hosts beside their IP
 * addresses), without the codes of its lines, which cut sentences in two, blanks as one.
 */
export function plainText(text: string): string {
	return unaccented(text)
		.replace(linkPath, '$1')
		.replace(address, '')
		.replace(hostWithAddress, ' ')
		.replace(lineCode, ' ')
		.replace(speaker, ' ')
		.replace(command, '')
		.replace(emptyBrackets, '')
		.replace(joints, ' ')
		.replace(blanks, ' ')
		.trim();
}
