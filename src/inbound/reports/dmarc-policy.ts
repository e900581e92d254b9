import {registeredDomain} from '../../mail/registered-domain.ts';
import type {DnsAnswer} from '../../net/dns.ts';
import type {KnownAnswers} from './known-answers.ts';

/** A domain owner's demands: whether DKIM and SPF must match the author's domain exactly. */
export type DmarcPolicy = {readonly isDkimStrict: boolean; readonly isSpfStrict: boolean};

/** `none` means that the owner demands nothing, so there is nothing to check. */
export type PolicyAnswer =
	| {readonly kind: 'found'; readonly policy: DmarcPolicy}
	| {readonly kind: 'none'}
	| Extract<DnsAnswer<never>, {kind: 'failed'}>;

/** Returns the policy for mail from a domain: its own, or its organization's (RFC 7489 §6.6.3). */
export function policyFor(domain: string, answers: KnownAnswers): PolicyAnswer {
	const own = recordsAt(domain, answers);
	const organization = registeredDomain(domain);
	const isInherited = Array.isArray(own) && own.length === 0 && organization !== null && organization !== domain;
	const records = isInherited ? recordsAt(organization, answers) : own;
	if (!Array.isArray(records)) {
		return records;
	}
	const [record] = records;
	// Several records count as none.
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

type Tag = readonly [string, string];

/** Parses tags and values, in lower case. Errors after the version do not invalidate a record (§6.3). */
const tagsOf = (record: string): Tag[] =>
	record.split(';').flatMap(part => {
		const [, name, value] = /^([a-z]\w*)\s*=\s*(\S.*)$/i.exec(part.trim()) ?? [];
		return name && value ? [[name.toLowerCase(), value.toLowerCase()] as const] : [];
	});

/** A record without a valid policy counts only if it requests reports. */
const isUsable = (tags: readonly Tag[]): boolean =>
	tags.some(
		([name, value]) =>
			(name === 'p' && /^(?:none|quarantine|reject)$/.test(value)) ||
			(name === 'rua' && value.startsWith('mailto:')),
	);

/** If a tag appears twice, the stricter value counts. */
const isStrict = (tags: readonly Tag[], tagName: 'adkim' | 'aspf'): boolean =>
	tags.some(([name, value]) => name === tagName && value === 's');
