import type {Knex} from 'knex';
import type {Links} from '../compose/links/links.ts';
import {cutText} from '../kit/text.ts';
import {isReserved, parseAddress, unquotedLocal} from '../mail/address.ts';
import type {PastId} from '../mail/ids.ts';
import {
	contentView,
	type ParsedMessage,
	receivedView,
	type Summary,
	uncheckedVerdicts,
	unreadableMessage,
	type Verdicts,
} from '../mail/received.ts';
import type {Reading, StoredInbound} from '../mail/report.ts';
import {subjectTerms} from '../mail/terms.ts';
import type {ReceivedMail} from '../outcome/received.ts';
import {findInboxes, findOwnMessages, findReplied, type NewReceived} from '../resources/received/store.ts';
import {findByProviderIds} from '../store/reports.ts';
import {findSubmitted} from '../store/retention.ts';

type ReceivedOptions = {
	readonly reader: Knex;
	readonly links: Pick<Links, 'readReplyLocal' | 'readMessageId'>;
	readonly pastId: PastId;
	/** The base of URLs of files: MAILCTL_PUBLIC_URL. */
	readonly publicUrl: string;
};

/** A workspace that receives the message: its addresses, and the message that a reply token identifies. */
type Owner = {readonly recipients: Set<string>; inReplyTo: string | null};

/** Characters of text and of HTML that are posted, because each endpoint stores its own. */
const maxPostedLength = 65_536;

/** Returns the message as each of its workspaces receives it. Most incoming messages are reports, for no workspace. */
export async function toReceived(
	options: ReceivedOptions,
	inbound: StoredInbound,
	{message, verdicts = uncheckedVerdicts}: Reading,
	raw: Buffer,
): Promise<ReceivedMail[]> {
	const owners = await findOwners(options, inbound.rcptTo);
	if (owners.size === 0) {
		return [];
	}
	const parsed = message ?? unreadableMessage('it was not read');
	const messages = [...owners].map(async ([workspaceId, owner]) => {
		const recipients = [...owner.recipients];
		const inReplyTo = owner.inReplyTo ?? (await findRepliedTo(options, workspaceId, parsed.repliedTo));
		const summary = toSummary(inbound, parsed, verdicts, recipients);
		const {text, html, cut, headers, fault} = parsed;
		const mail: NewReceived = {
			// Lists are sorted by id, so a message that was read late appears among those that arrived with it.
			id: options.pastId('rcv', Date.parse(inbound.receivedAt)),
			workspaceId,
			inboundId: inbound.id,
			inReplyTo,
			fault,
			summary,
			raw,
			receivedAt: inbound.receivedAt,
			content: {text, html, cut, headers},
			files: parsed.files.map(({content}) => content),
			terms: [
				...toTerms('from', [summary.mailFrom, ...parsed.senders]),
				...toTerms('to', [...recipients, ...parsed.addressees]),
				...(inReplyTo === null ? [] : [`re:${inReplyTo}`]),
				...subjectTerms(parsed.subject),
			],
		};
		const view = receivedView({...mail, size: raw.length}, options.publicUrl);
		const posted = {text: text && cutText(text, maxPostedLength), html: html && cutText(html, maxPostedLength)};
		const isCut = cut || posted.text !== text || posted.html !== html;
		return {mail, detail: {...view, ...contentView({...mail.content, ...posted, cut: isCut})}};
	});
	return await Promise.all(messages);
}

async function findOwners({reader, links}: ReceivedOptions, rcptTo: readonly string[]): Promise<Map<string, Owner>> {
	const addresses = rcptTo.map(unquoted);
	const owners = new Map<string, Owner>();
	const ownerOf = (workspaceId: string): Owner => {
		const owner = owners.get(workspaceId) ?? {recipients: new Set(), inReplyTo: null};
		owners.set(workspaceId, owner);
		return owner;
	};
	const tokens = addresses.flatMap(address => {
		const token = links.readReplyLocal(address.slice(0, address.lastIndexOf('@')));
		return token === null ? [] : [{address, token}];
	});
	const unreserved = addresses.filter(address => !isReserved(address));
	const inboxes = unreserved.length === 0 ? new Map() : await findInboxes(reader, unreserved);
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
			owner.inReplyTo ??= row.messageId;
		}
	}
	return owners;
}

/** Each Message-ID of a submitted message needs a query. */
const maxLookups = 5;

/** Returns the workspace's message that the first matching Message-ID identifies. */
async function findRepliedTo(
	{reader, links}: ReceivedOptions,
	workspaceId: string,
	repliedTo: readonly string[],
): Promise<string | null> {
	const signed = repliedTo.flatMap(messageId => {
		const id = links.readMessageId(messageId);
		return id === null ? [] : [[messageId, id] as const];
	});
	const ids = signed.map(([, id]) => id);
	const ownIds = await findOwnMessages(reader, workspaceId, ids);
	const unsigned = repliedTo.filter(messageId => links.readMessageId(messageId) === null).slice(0, maxLookups);
	const known = new Map([
		...signed.filter(([, id]) => ownIds.includes(id)),
		...(await findRelayed(reader, workspaceId, unsigned)),
	]);
	for (const messageId of repliedTo) {
		const [submitted] =
			unsigned.includes(messageId) && !known.has(messageId)
				? await findSubmitted(reader, workspaceId, messageId, {below: null, limit: 1})
				: [];
		const match = known.get(messageId) ?? submitted;
		if (match !== undefined) {
			return match;
		}
	}
	return null;
}

/** A shorter name, such as a Postfix queue id, could be guessed. */
const minProviderIdLength = 16;

/**
 * Finds the workspace's messages by providers' Message-IDs. Amazon SES and others replace ours with one that is, or
 * begins with, the id in their reply.
 */
async function findRelayed(
	reader: Knex,
	workspaceId: string,
	messageIds: readonly string[],
): Promise<ReadonlyMap<string, string>> {
	const named = messageIds.flatMap(messageId => {
		const fullId = messageId.slice(1, -1);
		const providerIds = [fullId, fullId.slice(0, fullId.lastIndexOf('@'))];
		return providerIds.filter(id => id.length >= minProviderIdLength).map(providerId => ({messageId, providerId}));
	});
	const sent = await findByProviderIds(
		reader,
		named.map(({providerId}) => providerId),
	);
	const recipients = await findReplied(
		reader,
		sent.map(({id}) => id),
	);
	const own = recipients.filter(recipient => recipient.workspaceId === workspaceId);
	return new Map(
		named.flatMap(({messageId, providerId}) => {
			const ids = sent.filter(row => row.providerId === providerId).map(({id}) => id);
			const matches = new Set(own.filter(({id}) => ids.includes(id)).map(recipient => recipient.messageId));
			// An id shared by several messages identifies none of them.
			return matches.size === 1 ? [[messageId, [...matches][0] as string]] : [];
		}),
	);
}

function toSummary(
	{mailFrom: sender}: StoredInbound,
	{from, subject, automatic, files}: ParsedMessage,
	verdicts: Verdicts,
	recipients: readonly string[],
): Summary {
	const mailFrom = sender ?? '';
	return {
		...verdicts,
		from,
		recipients,
		mailFrom,
		subject,
		automatic: automatic || mailFrom === '',
		files: files.map(({content: _, ...file}) => file),
	};
}

function toTerms(kind: 'from' | 'to', addresses: readonly string[]): string[] {
	return addresses.flatMap(address => {
		const parsed = parseAddress(unquoted(address), {allowsUtf8Local: true});
		return parsed.ok ? [`${kind}:${parsed.address.key}`] : [];
	});
}

/** Removes unnecessary quotes from the local part. */
function unquoted(address: string): string {
	const at = address.lastIndexOf('@');
	return unquotedLocal(address.slice(0, at)) + address.slice(at);
}
