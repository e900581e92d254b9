import {BlockList, isIPv6} from 'node:net';
import ipaddr from 'ipaddr.js';
import {type DnsAnswer, type MxRecord, oversizedCode} from '../../net/dns.ts';
import {isUnder, reverseName} from '../../net/host-name.ts';
import {isWellFormed, type KnownAnswers, unknownCode} from './known-answers.ts';
import {domainName} from './raw-header.ts';
import {expandDomainSpec, type MacroValues} from './spf-macros.ts';
import {type Cidr, type Mechanism, parseRecord, type SpfRecord} from './spf-record.ts';

// SPF (RFC 7208), evaluated on known DNS answers. The work is bounded by ten lookups of at most 4,096 octets each, and
// linear in them. A missing answer matches nothing, so that evaluation continues and all questions of a record are
// collected at once.

export type SpfResult = 'pass' | 'fail' | 'softfail' | 'neutral' | 'none' | 'permerror' | 'temperror';

/** The client that sent a message. `sender` is empty for a bounce, which is checked by HELO. */
export type SpfClient = {readonly client: string; readonly helo: string; readonly sender: string};

const maxLookups = 10;
const maxVoidLookups = 2;
const maxHosts = 10;
/** Longer addresses cannot receive mail (RFC 5321 §4.5.3.1), so macros are not expanded for them. */
const maxSenderLength = 320;

const results = {'+': 'pass', '-': 'fail', '~': 'softfail', '?': 'neutral'} as const;

/** Returns the result for a client, and the domain that it is about. */
export function checkSpf(answers: KnownAnswers, from: SpfClient): {result: SpfResult; domain: string | null} {
	const sender = from.sender || `postmaster@${from.helo}`;
	const at = sender.lastIndexOf('@');
	const stated = sender.slice(at + 1).toLowerCase();
	// DNS and the macros use A-labels (RFC 8616 §4).
	const domain = /^[\0-\x7f]*$/.test(stated) ? stated : (domainName(stated) ?? '');
	if (!isDomain(domain)) {
		return {result: 'none', domain: null};
	}
	if (sender.length > maxSenderLength) {
		return {result: 'permerror', domain};
	}
	const local = sender.slice(0, Math.max(at, 0)) || 'postmaster';
	// An IPv4-mapped IPv6 address is evaluated as IPv4 (§5).
	const client = ipaddr.process(from.client).toString();
	const evaluation = new Evaluation(answers, {client, helo: from.helo, local, senderDomain: domain});
	const result = evaluation.check(domain);
	return {result: answers.missing.length > 0 ? 'temperror' : result, domain};
}

const isDomain = (name: string): boolean => isWellFormed(name) && name.includes('.') && /^[\w.-]+$/.test(name);

/** A result that ends the whole evaluation. */
type Problem = 'permerror' | 'temperror';

/** Whether a mechanism matches, or the error that ends the evaluation. */
type Match = boolean | Problem;

class Evaluation {
	readonly #answers: KnownAnswers;
	readonly #from: Omit<MacroValues, 'domain' | 'clientName'>;
	#lookups = 0;
	#voidLookups = 0;

	constructor(answers: KnownAnswers, from: Omit<MacroValues, 'domain' | 'clientName'>) {
		this.#answers = answers;
		this.#from = from;
	}

	check(domain: string): SpfResult {
		const answer = this.#answers.ask<string>('txt', domain);
		if (answer.kind !== 'found') {
			return answer.kind !== 'failed' ? 'none' : isUnknown(answer) ? 'neutral' : failed(answer);
		}
		const texts = answer.records.filter(text => /^v=spf1(?: |$)/i.test(text));
		const [text] = texts;
		if (text === undefined) {
			return 'none';
		}
		const record = texts.length > 1 ? null : parseRecord(text);
		return record === null ? 'permerror' : this.#evaluate(record, domain);
	}

	#evaluate({mechanisms, redirect}: SpfRecord, domain: string): SpfResult {
		for (const mechanism of mechanisms) {
			const match = this.#matches(mechanism, domain);
			if (typeof match === 'string') {
				return match;
			}
			if (match) {
				return results[mechanism.qualifier];
			}
		}
		if (redirect === null) {
			return 'neutral';
		}
		const target = expandDomainSpec(redirect, this.#valuesOf(domain));
		if (!this.#mayLookUp() || !isWellFormed(target)) {
			return 'permerror';
		}
		const result = this.check(target);
		return result === 'none' ? 'permerror' : result;
	}

	#matches({name, spec, network, cidr}: Mechanism, domain: string): Match {
		if (name === 'all') {
			return true;
		}
		if (network !== null) {
			return this.#isIn(network, cidr);
		}
		const target = spec === null ? domain : expandDomainSpec(spec, this.#valuesOf(domain));
		if (!this.#mayLookUp() || !isWellFormed(target)) {
			return 'permerror';
		}
		switch (name) {
			case 'include':
				return this.#includes(target);
			case 'exists':
				return this.#interpret(this.#answers.ask<string>('a', target), () => true);
			case 'a':
				return this.#isAddressOf(target, cidr);
			case 'mx':
				return this.#isExchangeOf(target, cidr);
			default:
				return this.#clientNames().some(clientName => isUnder(clientName, target));
		}
	}

	/** Counts a lookup: `include`, `a`, `mx`, `ptr`, `exists` and `redirect` share one limit (§4.6.4). */
	#mayLookUp(): boolean {
		this.#lookups++;
		return this.#lookups <= maxLookups;
	}

	#includes(target: string): Match {
		const result = this.check(target);
		if (result === 'none') {
			return 'permerror';
		}
		return result === 'permerror' || result === 'temperror' ? result : result === 'pass';
	}

	#isAddressOf(host: string, cidr: Cidr): Match {
		return this.#interpret(this.#addresses(host), records => records.some(address => this.#isIn(address, cidr)));
	}

	#isExchangeOf(domain: string, cidr: Cidr): Match {
		return this.#interpret(this.#answers.ask<MxRecord>('mx', domain), records => {
			if (records.length > maxHosts) {
				return 'permerror';
			}
			// Check every server before deciding, so that all questions are collected at once.
			const matches = records.map(({exchange}) => {
				const answer = this.#addresses(exchange);
				return answer.kind === 'failed' && !isUnknown(answer)
					? failed(answer)
					: answer.kind === 'found' && answer.records.some(address => this.#isIn(address, cidr));
			});
			return matches.find(match => match !== false) ?? false;
		});
	}

	/** Interprets a mechanism's answer. A missing one matches nothing; too many empty ones are an error. */
	#interpret<T>(answer: DnsAnswer<T>, matches: (records: readonly T[]) => Match): Match {
		if (answer.kind === 'found') {
			return matches(answer.records);
		}
		if (answer.kind === 'failed') {
			return isUnknown(answer) ? false : failed(answer);
		}
		this.#voidLookups++;
		return this.#voidLookups > maxVoidLookups && 'permerror';
	}

	#addresses(host: string): DnsAnswer<string> {
		return isWellFormed(host)
			? this.#answers.ask<string>(isIPv6(this.#from.client) ? 'aaaa' : 'a', host)
			: {kind: 'nodata'};
	}

	/** Returns the client's names that resolve to its address (§5.5). A failed lookup yields no name. */
	#clientNames(): string[] {
		const answer = this.#answers.ask<string>('ptr', reverseName(this.#from.client));
		const names = answer.kind === 'found' ? answer.records.slice(0, maxHosts).map(name => name.toLowerCase()) : [];
		return names.filter(name => {
			const addresses = this.#addresses(name);
			return addresses.kind === 'found' && addresses.records.some(address => this.#isIn(address, {}));
		});
	}

	#isIn(network: string, {v4, v6}: Cidr): boolean {
		const {client} = this.#from;
		const [family, bits] = isIPv6(network) ? (['ipv6', v6 ?? 128] as const) : (['ipv4', v4 ?? 32] as const);
		if (isIPv6(client) !== (family === 'ipv6')) {
			return false;
		}
		const range = new BlockList();
		range.addSubnet(network, bits, family);
		return range.check(client, family);
	}

	#valuesOf(domain: string): MacroValues {
		const clientName = () => {
			const names = this.#mayLookUp() ? this.#clientNames() : [];
			return (
				names.find(name => name === domain) ??
				names.find(name => isUnder(name, domain)) ??
				names[0] ??
				'unknown'
			);
		};
		return {...this.#from, domain, clientName};
	}
}

const isUnknown = ({code}: {readonly code: string}): boolean => code === unknownCode;

const failed = ({code}: {readonly code: string}): Problem => (code === oversizedCode ? 'permerror' : 'temperror');
