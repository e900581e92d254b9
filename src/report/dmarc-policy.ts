import {registeredDomain} from '../mail/registered-domain.ts';
import type {DnsAnswer} from '../net/dns.ts';
import type {KnownAnswers} from './known-answers.ts';

/** What the owner of a domain demands: whether each mechanism has to prove the very domain of the author. */
export type DmarcPolicy = {readonly isDkimStrict: boolean; readonly isSpfStrict: boolean};

/** `none`: nothing is demanded, so there is nothing to judge. */
export type PolicyAnswer =
	| {readonly kind: 'found'; readonly policy: DmarcPolicy}
	| {readonly kind: 'none'}
	| Extract<DnsAnswer<never>, {kind: 'failed'}>;

/** The policy for mail of a domain, its own or that of its organization (RFC 7489 §6.6.3). */
export function policyFor(domain: string, answers: KnownAnswers): PolicyAnswer {
	const own = recordsAt(domain, answers);
	const organization = registeredDomain(domain);
	const isOrganizations = Array.isArray(own) && own.length === 0 && organization !== null && organization !== domain;
	const records = isOrganizations ? recordsAt(organization, answers) : own;
	if (!Array.isArray(records)) {
		return records;
	}
	const [record] = records;
	// Of several none counts.
	const tags = records.length === 1 && record !== undefined ? tagsOf(record) : [];
	return isUsable(tags)
		? {kind: 'found', policy: {isDkimStrict: isStrict(tags, 'adkim'), isSpfStrict: isStrict(tags, 'aspf')}}
		: {kind: 'none'};
}

type Failure = Extract<DnsAnswer<never>, {kind: 'failed'}>;

function recordsAt(domain: string, answers: KnownAnswers): string[] | Failure {
	const answer = answers.ask<string>('txt', `_dmarc.${domain}`);
	if (answer.kind === 'failed') {
		return answer;
	}
	const texts = answer.kind === 'found' ? answer.records : [];
	return texts.filter(text => /^\s*v\s*=\s*DMARC1\s*(?:;|$)/i.test(text));
}

/** A tag and its value, in lower case. */
type Tag = readonly [string, string];

/** What is no tag is left out: errors behind the version do not make a record void (§6.3). */
const tagsOf = (record: string): Tag[] =>
	record.split(';').flatMap(part => {
		const [, name, value] = /^([a-z]\w*)\s*=\s*(\S.*)$/i.exec(part.trim()) ?? [];
		return name && value ? [[name.toLowerCase(), value.toLowerCase()] as const] : [];
	});

/** Without a policy that is known, a record counts where it asks for reports. */
const isUsable = (tags: readonly Tag[]): boolean =>
	tags.some(
		([name, value]) =>
			(name === 'p' && /^(?:none|quarantine|reject)$/.test(value)) ||
			(name === 'rua' && value.startsWith('mailto:')),
	);

/** A tag that is there twice counts where it demands more. */
const isStrict = (tags: readonly Tag[], wanted: 'adkim' | 'aspf'): boolean =>
	tags.some(([name, value]) => name === wanted && value === 's');
