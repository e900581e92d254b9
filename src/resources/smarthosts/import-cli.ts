import {createHash} from 'node:crypto';
import {mkdirSync, readFileSync, renameSync, rmSync, writeFileSync} from 'node:fs';
import {dirname, join} from 'node:path';
import {setTimeout} from 'node:timers/promises';
import {CliError} from '../../cli/fault.ts';
import {readInput} from '../../cli/files.ts';
import {domain as domainName, oneOf} from '../../cli/options.ts';
import {type CliCommand, version} from '../../cli/program.ts';
import {openResolver, type Session} from '../../cli/session.ts';
import {fieldsOf, textOf} from '../../inbound/providers/provider.ts';
import {
	type ListingProvider,
	listingProviders,
	readPage,
	suppressionLists,
} from '../../inbound/providers/suppression-lists.ts';
import {parseAddress} from '../../mail/address.ts';
import type {SuppressionReason} from '../../mail/suppression.ts';
import {ProviderClient, ProviderHostError, type ProviderResponse} from '../../net/provider-client.ts';
import {insertBeside, showCounts} from '../suppressions/cli.ts';
import {SuppressionImport} from '../suppressions/suppression-file.ts';
import {timeOf} from '../suppressions/suppression-layout.ts';

type ImportOptions = {keyFile?: string; region?: string; domain?: string; stream: string};

export function importCommand(smarthost: CliCommand): void {
	smarthost
		.verb(
			'import <provider>',
			`Import a provider’s suppression list through its API: ${listingProviders.join(', ')}`,
		)
		.sample('mailctl smarthost import postmark --key-file token.txt')
		.option(
			'--key-file <file>',
			'file with the API key, - is standard input; default: the key in MAILCTL_RELAY_URL',
		)
		.option('--region <region>', 'ses: such as eu-west-1; mailgun, sendgrid: eu', region)
		.option('--domain <domain>', 'mailgun: the sending domain', domainName)
		.option('--stream <id>', 'postmark: the message stream', 'outbound')
		.does<ImportOptions, [string]>(importLists);
}

function region(text: string): string {
	if (!/^[a-z]+(-[a-z]+)*(-\d)?$/.test(text)) {
		throw new CliError('usage', `--region "${text}" is not a region`, 'use the form eu-west-1 or eu');
	}
	return text;
}

const retryAdvice = 'run the same command again; it continues where it stopped';

/** Imports page by page. The cursor moves after a page is stored, so that an interrupted import continues there. */
async function importLists(session: Session, options: ImportOptions, text: string): Promise<void> {
	const name = oneOf('the provider', listingProviders)(text);
	const {id: workspaceId} = await session.workspace();
	const {tools} = session;
	const key = await readKey(session, name, options);
	const base = suppressionLists[name].at(options);
	const lists = Object.entries(suppressionLists[name].lists);
	const write = insertBeside(session, workspaceId);
	const importer = new SuppressionImport({acting: tools, workspaceId, mode: 'live', reason: undefined, write});
	const cursor = new Cursor(session.settings().dataDir, [workspaceId, base, key]);
	const saved = cursor.read();
	let {list, next, counts, bad} = saved ?? {list: 0, next: null, counts: importer.counts, bad: 0};
	Object.assign(importer, {counts, bad});

	const readListPage = createPageReader(session, name, options, key);
	const progress = session.progress('entries');
	try {
		for (let isResumed = saved !== null; list < lists.length; isResumed = false) {
			const [path, reason] = lists[list] as (typeof lists)[number];
			const page = await readListPage(new URL(next ?? base + path), isResumed && next !== null);
			for (const entry of page?.entries ?? []) {
				await addEntry(importer, {...entry, reason}, tools.clock.now());
			}
			await importer.flush();
			next = page?.next ?? null;
			list += page !== null && next === null ? 1 : 0;
			cursor.write({list, next, counts: importer.counts, bad: importer.bad});
			progress.show(importer.counts.read, list / lists.length);
		}
	} finally {
		progress.end();
	}
	cursor.remove();
	showCounts(session, {}, name, importer, 'entry');
}

type ListEntry = {readonly address: string; readonly since: string; readonly reason: SuppressionReason};

async function addEntry(importer: SuppressionImport, entry: ListEntry, now: number): Promise<void> {
	const {address, since, reason} = entry;
	importer.counts.read++;
	const parsed = parseAddress(address, {allowsUtf8Local: true});
	if (!parsed.ok) {
		const problem = `the address ${address.slice(0, 100)} ${parsed.problem}`;
		await importer.refuse(importer.counts.read, problem, [address]);
		return;
	}
	// Amazon's seconds have fractions. An address is suppressed even if its time is invalid.
	const time = Math.min(timeOf(since.replace(/^(\d{10})\.\d+$/, '$1')) ?? -1, now);
	await importer.add({address: parsed.address, reason, createdAt: time < 0 ? null : time, source: null});
}

async function readKey(session: Session, name: ListingProvider, options: ImportOptions): Promise<string> {
	const {keyFile} = options;
	const {relay} = suppressionLists[name];
	const configuredRelay = session.settings().relays.find(({host}) => relay?.test(host));
	const key =
		keyFile === undefined ? (configuredRelay?.password ?? '') : (await readInput(keyFile)).toString().trim();
	if (!(name === 'ses' ? /^[^:\s]+:[\x21-\x7e]+$/ : /^[\x21-\x7e]+$/).test(key)) {
		const wrong =
			keyFile === undefined ? `no key was found for the API of ${name}` : `${keyFile} contains no valid key`;
		const content = name === 'ses' ? 'KEY_ID:SECRET' : 'the key';
		throw new CliError('usage', wrong, `put only ${content} into a file and name it with --key-file`);
	}
	const required = ({ses: 'region', mailgun: 'domain', postmark: 'stream', sendgrid: 'stream'} as const)[name];
	if (options[required] === undefined) {
		throw new CliError('usage', `${name} has a list for each ${required}`, `name it with --${required}`);
	}
	return key;
}

const requestLimitMs = 60_000;
/** Postmark returns a whole list at once, with up to half a million entries. */
const maxResponseLength = 64 * 1024 ** 2;
const defaultWaitSeconds = 10;
/** The total time that an import waits at a provider's request. */
const maxWaitSeconds = 900;

/**
 * Returns a function that requests a page. It returns `null` if the provider no longer knows where an interrupted
 * import stopped; the list is then read from the start.
 */
function createPageReader(session: Session, name: ListingProvider, options: ImportOptions, key: string) {
	const resolver = openResolver(session);
	const standIns = new Map(session.settings().providerHosts);
	const client = new ProviderClient({resolver, standIns, userAgent: `mailctl/${version()}`, limitMs: requestLimitMs});
	let waitedSeconds = 0;
	return async function readListPage(url: URL, isResumed: boolean): Promise<ReturnType<typeof readPage>> {
		const authHeaders = suppressionLists[name].headers(key, url, options, session.tools.clock.now());
		const headers = {accept: 'application/json', ...authHeaders};
		const response = await client.send(name, url, {method: 'GET', headers, maxResponseLength}).catch(error => {
			throw error instanceof ProviderHostError ? new CliError('temporary', error.message, retryAdvice) : error;
		});
		if (response.status === 429) {
			const seconds = Math.max(1, Number(response.headers['retry-after']) || defaultWaitSeconds);
			waitedSeconds += seconds;
			if (waitedSeconds <= maxWaitSeconds) {
				session.terminal.status(`${url.hostname} requests a pause of ${seconds} s`);
				await setTimeout(seconds * 1000);
				return await readListPage(url, isResumed);
			}
		}
		return isResumed && [400, 404].includes(response.status) ? null : parsePage(name, response, url);
	};
}

/**
 * Parses a page. Throws 78 for errors that the user must fix, 75 for temporary ones, and 69 for a response that is not
 * a list.
 */
function parsePage(name: ListingProvider, {status, body}: ProviderResponse, url: URL) {
	let parsed: unknown = null;
	try {
		parsed = JSON.parse(body);
	} catch {}
	const {message, Message, errors} = fieldsOf(parsed);
	const errorText = [message, Message, fieldsOf(Array.isArray(errors) ? errors[0] : null).message]
		.map(textOf)
		.find(Boolean);
	const responseText = `${url.hostname} responded with ${status}${errorText ? ` (${errorText.slice(0, 200)})` : ''}`;
	if (status === 429 || status >= 500) {
		throw new CliError('temporary', responseText, retryAdvice);
	}
	if (status >= 400) {
		const isKey = status === 401 || status === 403;
		const fix = isKey ? 'use a key that can read suppressions' : 'fix --region, --domain or --stream';
		throw new CliError('config', responseText, fix);
	}
	const page = status === 200 ? readPage(name, parsed, url) : null;
	if (page === null) {
		throw new CliError('unavailable', `${responseText}, but without a suppression list`, retryAdvice);
	}
	if (page.next !== null && !isAllowedNext(page.next, url)) {
		throw new CliError('unavailable', `${responseText}, but its next page is not valid`, retryAdvice);
	}
	return page;
}

/** Whether the next page is a different one on the same host, because the key must not be sent to another host. */
function isAllowedNext(next: string, {href, origin}: URL): boolean {
	return URL.canParse(next) && new URL(next).origin === origin && new URL(next).href !== href;
}

/** The progress of an import: the list, the next page to store (`null` for the first), and the counts so far. */
type Progress = Pick<SuppressionImport, 'counts' | 'bad'> & {readonly list: number; readonly next: string | null};

/** Stores the progress in a file in the data folder. Each account, workspace and key has its own file. */
class Cursor {
	readonly #file: string;

	constructor(dataDir: string, parts: readonly string[]) {
		const hash = createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 16);
		this.#file = join(dataDir, `smarthost-import-${hash}.json`);
	}

	/** Returns the progress of an interrupted import, or `null`. */
	read(): Progress | null {
		try {
			return JSON.parse(readFileSync(this.#file, 'utf8'));
		} catch {
			return null;
		}
	}

	write(progress: Progress): void {
		mkdirSync(dirname(this.#file), {recursive: true, mode: 0o700});
		writeFileSync(`${this.#file}.new`, `${JSON.stringify(progress)}\n`, {mode: 0o600});
		renameSync(`${this.#file}.new`, this.#file);
	}

	remove(): void {
		rmSync(this.#file, {force: true});
	}
}
