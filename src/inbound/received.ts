import type {Knex} from 'knex';
import {cutText} from '../kit/text.ts';
import type {Links} from '../links/links.ts';
import {isReserved, parseAddress} from '../mail/address.ts';
import type {NewId} from '../mail/ids.ts';
import {
	contentView,
	type ReadLetter,
	receivedView,
	type Summary,
	unreadLetter,
	type Verdicts,
} from '../mail/received.ts';
import type {CameIn, Reading} from '../mail/report.ts';
import {subjectTerms} from '../mail/terms.ts';
import type {ReceivedMail} from '../outcome/received.ts';
import {findInboxes, findOwnMessages, findReplied, type NewReceived} from '../store/received.ts';
import {findSubmitted} from '../store/retention.ts';
import {verdictsOf} from './verdicts.ts';

type ReceivedOptions = Parameters<typeof verdictsOf>[0] & {
	readonly reader: Knex;
	readonly links: Pick<Links, 'readReplyLocal' | 'readMessageId'>;
	readonly newId: NewId;
	/** Where files are fetched: MAILCTL_PUBLIC_URL. */
	readonly publicUrl: string;
};

/** A workspace that a mail is for: its addresses, and the message that a token of one of them names. */
type Owner = {readonly recipients: Set<string>; answered: string | null};

/** Characters of text and of html that are posted: each endpoint has a copy. */
const longestPosted = 65_536;

/** The mail as each workspace gets it that it is for: most mail that comes in is for none, but a report. */
export async function receivedOf(
	options: ReceivedOptions,
	cameIn: CameIn,
	{letter}: Reading,
	raw: Buffer,
): Promise<ReceivedMail[]> {
	const owners = await ownersOf(options, cameIn.rcptTo);
	if (owners.size === 0) {
		return [];
	}
	const read = letter ?? unreadLetter('it was not read');
	const verdicts = await verdictsOf(options, cameIn, read);
	const mails = [...owners].map(async ([workspaceId, {recipients: own, answered}]) => {
		const recipients = [...own];
		const inReplyTo = answered ?? (await findAnswered(options, workspaceId, read.answers));
		const summary = summaryOf(cameIn, read, verdicts, recipients);
		const {text, html, cut, headers, fault} = read;
		const mail: NewReceived = {
			id: options.newId('rcv'),
			...{workspaceId, inboundId: cameIn.id, inReplyTo, fault, summary, raw, receivedAt: cameIn.receivedAt},
			content: {text, html, cut, headers},
			files: read.files.map(({content}) => content),
			terms: [
				...termsOf('from', [summary.mailFrom, ...read.senders]),
				...termsOf('to', [...recipients, ...read.addressees]),
				...(inReplyTo === null ? [] : [`re:${inReplyTo}`]),
				...subjectTerms(read.subject),
			],
		};
		const view = receivedView({...mail, size: raw.length}, options.publicUrl);
		const posted = {text: text && cutText(text, longestPosted), html: html && cutText(html, longestPosted)};
		const isCut = cut || posted.text !== text || posted.html !== html;
		return {mail, detail: {...view, ...contentView({...mail.content, ...posted, cut: isCut})}};
	});
	return await Promise.all(mails);
}

async function ownersOf({reader, links}: ReceivedOptions, addresses: readonly string[]): Promise<Map<string, Owner>> {
	const owners = new Map<string, Owner>();
	const ownerOf = (workspaceId: string): Owner => {
		const owner = owners.get(workspaceId) ?? {recipients: new Set(), answered: null};
		owners.set(workspaceId, owner);
		return owner;
	};
	const tokens = addresses.flatMap(address => {
		const token = links.readReplyLocal(address.slice(0, address.lastIndexOf('@')));
		return token === null ? [] : [{address, token}];
	});
	const free = addresses.filter(address => !isReserved(address));
	const inboxes = free.length === 0 ? new Map() : await findInboxes(reader, free);
	for (const [address, workspaceId] of inboxes) {
		ownerOf(workspaceId).recipients.add(address);
	}
	const ids = tokens.map(({token}) => token.id);
	const rows = await findReplied(reader, ids);
	for (const {address, token} of tokens) {
		const row = rows.find(({id}) => id === token.id);
		if (row && token.verify(row.address)) {
			const owner = ownerOf(row.workspaceId);
			owner.recipients.add(address);
			owner.answered ??= row.messageId;
		}
	}
	return owners;
}

/** Message-IDs that a mail was submitted with need a query each. */
const mostLookedUp = 5;

/** The message of the workspace that one of these Message-IDs names, the first that does. */
async function findAnswered(
	{reader, links}: ReceivedOptions,
	workspaceId: string,
	answers: readonly string[],
): Promise<string | null> {
	const ids = answers.flatMap(name => links.readMessageId(name) ?? []);
	const known = await findOwnMessages(reader, workspaceId, ids);
	const own = ids.find(id => known.includes(id));
	if (own !== undefined) {
		return own;
	}
	for (const name of answers.slice(0, mostLookedUp)) {
		const [submitted] = await findSubmitted(reader, workspaceId, name, {below: null, limit: 1});
		if (submitted !== undefined) {
			return submitted;
		}
	}
	return null;
}

function summaryOf(
	{mailFrom: sender}: CameIn,
	{from, subject, automatic, files}: ReadLetter,
	verdicts: Verdicts,
	recipients: readonly string[],
): Summary {
	const mailFrom = sender ?? '';
	return {
		...{...verdicts, from, recipients, mailFrom, subject, automatic: automatic || mailFrom === ''},
		files: files.map(({content: _, ...file}) => file),
	};
}

function termsOf(kind: 'from' | 'to', addresses: readonly string[]): string[] {
	return addresses.flatMap(address => {
		const parsed = parseAddress(address, {utf8Local: true});
		return parsed.ok ? [`${kind}:${parsed.address.key}`] : [];
	});
}
