import {readFileSync} from 'node:fs';
import {fileURLToPath} from 'node:url';
import {packageFile} from '../kit/program-files.ts';
import {readSettingFile} from '../kit/regular-file.ts';
import {utf8Text} from '../kit/text.ts';
import type {Blocklist} from '../net/blocklist.ts';
import {ConfigError} from './config-error.ts';
import type {TableValues} from './table.ts';

const shippedFile = fileURLToPath(packageFile('config/blocklists.json'));
const addressList = [
	/^\["127(\.\d+){3}(-\d+)?"(,"127(\.\d+){3}(-\d+)?")*\]$/,
	'a list such as ["127.0.0.2-11"]',
] as const;

/** A pattern that each field's JSON must match, and the advice if it does not. */
const fields: Readonly<Record<string, readonly [RegExp, string]>> = {
	zone: [/^"[a-z0-9_-]+(\.[a-z0-9_-]+)+"$/, 'the name of a DNS zone'],
	name: [/^".*\S.*"$/, 'the name of the list for people'],
	kind: [/^"(ip|ipv4|domain)"$/, 'ip, ipv4 or domain'],
	listed: addressList,
	refused: addressList,
	delist: [/^"https?:\/\/.*"$/, 'a URL, in which {source} stands for the listed address or domain'],
	test: [/^"[a-z0-9.-]*"$/, 'a name in the zone that is always listed'],
};

type BlocklistsSettings = Pick<TableValues, 'blocklistsFile'>;

/** Returns all problems with MAILCTL_BLOCKLISTS_FILE. */
export const blocklistsProblems = (settings: BlocklistsSettings): readonly string[] => read(settings).problems;

/**
 * Loads the shipped lists, merged with the operator's field by field; `null` in the file removes a list. Throws
 * ConfigError if the file is invalid.
 */
export function loadBlocklists(settings: BlocklistsSettings): readonly Blocklist[] {
	const {lists, problems} = read(settings);
	if (problems.length > 0) {
		throw new ConfigError(problems);
	}
	return lists;
}

function read({blocklistsFile: file}: BlocklistsSettings): {lists: readonly Blocklist[]; problems: readonly string[]} {
	const source = `MAILCTL_BLOCKLISTS_FILE="${file}"`;
	const shipped: Record<string, object> = JSON.parse(readFileSync(shippedFile, 'utf8'));
	try {
		const own: object = file === null ? {} : JSON.parse(utf8Text(readSettingFile(file)));
		const lists = Object.entries({...shipped, ...own})
			.filter(([zone, entry]) => zone !== '$comment' && entry !== null)
			.map(([zone, entry]) => ({test: '', ...shipped[zone], ...entry, zone}) as unknown as Blocklist);
		return {lists, problems: lists.flatMap(findProblems).map(problem => `${source} ${problem}`)};
	} catch (error) {
		return {lists: [], problems: [`${source} cannot be read: ${(error as Error).message}`]};
	}
}

function findProblems(list: Blocklist): string[] {
	const values: Readonly<Record<string, unknown>> = list;
	return Object.keys({...fields, ...list})
		.filter(field => !fields[field]?.[0].test(JSON.stringify(values[field])))
		.map(field => `${list.zone}.${field}: use ${fields[field]?.[1] ?? `one of ${Object.keys(fields).join(' ')}`}`);
}
