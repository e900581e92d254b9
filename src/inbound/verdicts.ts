import type {DMARCOptions} from 'mailauth';
import {inTime} from '../kit/clock.ts';
import {domainOf} from '../mail/address.ts';
import type {FoundKeys, ReadLetter, Verdict, Verdicts} from '../mail/received.ts';
import type {CameIn} from '../mail/report.ts';
import type {DnsAnswer, Resolver} from '../net/dns.ts';

// Whether a mail is from whom it says: SPF (RFC 7208), DKIM (RFC 6376), DMARC (RFC 7489). DNS is asked here, for a limited time;
// what takes time of the processor is done in the reader's thread.

/** Asking all that a mail needs, at once. */
const askMs = 5000;
/** What was not asked before is waited for this long, each time: others wait too. */
const limitMs = 500;
const mostSignatures = 5;
const longestSignature = 4096;
const longestHeader = 64 * 1024;
/** With more lines verifying takes seconds. */
const mostLines = 250_000;
const signature = /^dkim-signature[ \t]*:[^\n]*(?:\n[ \t][^\n]*)*/gim;
const authorField = /^from[ \t]*:[^\n]*(?:\n[ \t][^\n]*)*/im;

/**
 * Asks what the verdicts on a mail need (`from` null: its signatures alone), so that the resolver knows it when they are made.
 * Holds no mail, and never rejects.
 */
export function askAhead(options: VerdictOptions, raw: Buffer, from: CameIn | null): Promise<unknown> {
	const work: Array<Promise<unknown>> = keyNames(raw).map(name => options.resolver.txt(name));
	if (from !== null) {
		const author = authorField.exec(headerOf(raw))?.[0] ?? '';
		const [domain = null] = /^[\w.-]+/.exec(author.slice(author.lastIndexOf('@') + 1)) ?? [];
		const letter = {from: {address: `x@${domain}`, name: null}, isAmbiguous: false, signatures: []};
		work.push(spfOf(options, from), dmarcOf(options, letter, {result: 'none', domain: null}, domain));
	}
	return inTime(askMs, timedOut, () => Promise.allSettled(work)).catch(() => undefined);
}

/** The keys of the signatures of a mail; none where it is not worth the time to verify them. Never rejects. */
export async function keysOf(raw: Buffer, resolver: Pick<Resolver, 'txt'>): Promise<FoundKeys> {
	const asked = keyNames(raw).map(async name => {
		const records = inTime(limitMs, timedOut, async () => recordsOf(await resolver.txt(name)));
		return [name, await records.catch(() => 'ETIMEOUT')] as const;
	});
	return await Promise.all(asked);
}

function keyNames(raw: Buffer): string[] {
	const signatures = headerOf(raw).match(signature) ?? [];
	if (signatures.length > mostSignatures || signatures.some(field => field.length > longestSignature)) {
		return [];
	}
	const names = signatures.flatMap(field => {
		const [selector, domain] = ['s', 'd'].map(
			tag => new RegExp(`[:;\\s]${tag}\\s*=\\s*([\\w.-]+)`, 'i').exec(field)?.[1],
		);
		return selector && domain ? [`${selector}._domainkey.${domain}`.toLowerCase()] : [];
	});
	return names.length > 0 && linesOf(raw) <= mostLines ? [...new Set(names)] : [];
}

function headerOf(raw: Buffer): string {
	const text = raw.toString('latin1', 0, longestHeader);
	return text.slice(0, Math.max(0, text.search(/\r?\n\r?\n/)));
}

function linesOf(raw: Buffer): number {
	let lines = 0;
	for (let at = raw.indexOf(0x0a); at !== -1 && lines <= mostLines; at = raw.indexOf(0x0a, at + 1)) {
		lines++;
	}
	return lines;
}

const timedOut = () => new Error('DNS took too long');
const recordsOf = (answer: DnsAnswer<string>) => (answer.kind === 'found' ? answer.records : codeOf(answer));
const codeOf = ({kind}: DnsAnswer<unknown>): string => (kind === 'failed' ? 'ETIMEOUT' : 'ENOTFOUND');

/** What the library calls a resolver: rejects with a code as the system does. */
export function asking(resolver: Pick<Resolver, 'txt'> & Partial<Resolver>) {
	return async (name: string, type: string): Promise<string[] | string[][]> => {
		const ask = {TXT: resolver.txt, A: resolver.a, AAAA: resolver.aaaa, MX: resolver.mx, PTR: resolver.ptr}[type];
		const answer: DnsAnswer<unknown> = ask ? await ask(name.toLowerCase().replace(/\.$/, '')) : {kind: 'nodata'};
		if (answer.kind !== 'found') {
			throw Object.assign(new Error(`no ${type} of ${name}`), {code: codeOf(answer)});
		}
		return (type === 'TXT' ? answer.records.map(record => [record]) : answer.records) as string[] | string[][];
	};
}

type VerdictOptions = {readonly resolver: Resolver; readonly hostname: string};

/** What there is to say of who sent a mail. DNS that fails gives `temperror`. Never rejects. */
export async function verdictsOf(options: VerdictOptions, cameIn: CameIn, letter: ReadLetter): Promise<Verdicts> {
	const inLimit = (domain: string | null, work: () => Promise<Verdict>) =>
		inTime(limitMs, timedOut, work).catch((): Verdict => ({result: 'temperror', domain}));
	const spf = await inLimit(null, () => spfOf(options, cameIn));
	const domain = domainOf(letter.from?.address ?? '').toLowerCase() || null;
	const dmarc = await inLimit(domain, () => dmarcOf(options, letter, spf, domain));
	const passed = letter.signatures.filter(({result}) => result === 'pass');
	const aligned = passed.find(one => one.domain === domain) ?? passed[0];
	return {spf, dkim: aligned ?? letter.signatures[0] ?? {result: 'none', domain: null}, dmarc};
}

async function spfOf({resolver, hostname}: VerdictOptions, {client, helo, mailFrom}: CameIn): Promise<Verdict> {
	if (!client) {
		return {result: 'none', domain: null};
	}
	const {spf} = await import('mailauth/lib/spf/index.js');
	const {domain, status} = await spf({
		...{ip: client, helo: helo || `[${client}]`, mta: hostname, resolver: asking(resolver)},
		...(mailFrom && {sender: mailFrom}),
	});
	return {result: status.result, domain: domain || null};
}

async function dmarcOf(
	{resolver}: VerdictOptions,
	{from, isAmbiguous, signatures}: Pick<ReadLetter, 'from' | 'isAmbiguous' | 'signatures'>,
	spf: Verdict,
	domain: string | null,
): Promise<Verdict> {
	// RFC 7489 §6.6.1: a From with several authors has no one domain to check; what people see of fields that are there twice, no signature covers.
	if (domain === null || isAmbiguous) {
		return {result: domain === null ? 'none' : 'permerror', domain};
	}
	const {dmarc} = await import('mailauth/lib/dmarc/index.js');
	const passed = (one: Verdict) => (one.result === 'pass' && one.domain ? [one.domain] : []);
	const options: DMARCOptions = {
		headerFrom: from?.address ?? '',
		spfDomains: passed(spf),
		dkimDomains: signatures.flatMap(passed).map(name => ({domain: name})),
		resolver: asking(resolver),
	};
	const result = await dmarc(options);
	return {result: result ? result.status.result : 'none', domain};
}
