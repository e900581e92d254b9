import {noMessage} from '../mail/ids.ts';
import {
	type AlertConsent,
	type Claims,
	readClaims,
	readConsent,
	SealedToken,
	type SignedId,
	SignedIds,
	type TokenKeys,
	writeClaims,
	writeConsent,
} from './tokens.ts';

/** A token that was opened. An expired one still has its owner, for the page that answers it. */
type Opened =
	/** `url` is where a click goes, empty in the other kinds. */
	| {readonly ok: true; readonly claims: Claims; readonly url: string}
	| {readonly ok: false; readonly fault: 'forged'}
	| {readonly ok: false; readonly fault: 'expired'; readonly claims: Claims; readonly url: string};

/** Makes the URLs of hosted pages. */
export type PageLinks = {
	readonly unsubscribeUrl: (claims: Claims) => string;
	/** The preference page, with the token of an unsubscribe URL. */
	readonly preferencesUrl: (unsubscribeUrl: string) => string;
	/** The same of a person, by a token that stood in no mail. */
	readonly personUrl: (person: Pick<Claims, 'workspaceId' | 'address' | 'expiresAt'>) => string;
	/** The URL of the pixel that reports an open. */
	readonly openUrl: (claims: Claims) => string;
	/**
	 * The tracked form of a link. Null: not an http(s) URL, too long, or a page of ours; such a link is not
	 * changed.
	 */
	readonly clickUrl: (claims: Claims, url: string) => string | null;
};

export type Links = PageLinks & {
	/** The pages under a domain's link host; null: under the public URL. */
	readonly under: (linkHost: string | null) => PageLinks;
	readonly openUnsubscribe: (token: string, now: number) => Opened;
	/** The page where an address agrees to a workspace's alerts. */
	readonly alertUrl: (consent: AlertConsent) => string;
	/** `null` if the token is forged. An expired one is returned too. */
	readonly readAlertConsent: (token: string) => AlertConsent | null;
	readonly readOpen: (token: string, now: number) => Opened;
	readonly readClick: (token: string, now: number) => Opened;
	/** The local part of a recipient's envelope sender: `b` and 44 characters. */
	readonly returnPathLocal: (recipientId: string, address: string) => string;
	readonly readReturnPath: (localPart: string) => SignedId | null;
	/** The local part of a recipient's unsubscribe address: `u` and 44 characters. */
	readonly unsubscribeLocal: (recipientId: string, address: string) => string;
	readonly readUnsubscribeLocal: (localPart: string) => SignedId | null;
	/** The local part of the address at which a recipient's answers come in: `reply+p` and 44 characters. */
	readonly replyLocal: (recipientId: string, address: string) => string;
	readonly readReplyLocal: (localPart: string) => SignedId | null;
	/** The value of X-Mailctl-Ref and of the envelope id: `r` and 44 characters. */
	readonly ref: (recipientId: string, address: string) => string;
	readonly readRef: (token: string) => SignedId | null;
	/** The left side of the Message-ID, the same for every recipient of a message: `m` and 44 characters. */
	readonly messageIdLocal: (messageId: string) => string;
	/** The message's id, null for a Message-ID that we did not make. */
	readonly readMessageIdLocal: (local: string) => string | null;
	/** The same of a whole Message-ID, with angle brackets or without. */
	readonly readMessageId: (messageId: string) => string | null;
};

const replyPrefix = 'reply+';
/** Under `/t/`, which reverse proxies in front of mailctl already forward. */
export const alertPagePath = '/t/alerts';

/** The Message-ID of a message from this address, without angle brackets. */
export function messageIdOf({messageIdLocal}: Pick<Links, 'messageIdLocal'>, messageId: string, from: string): string {
	return messageIdLocal(messageId) + from.slice(from.lastIndexOf('@'));
}

/** Makes and reads every token that leaves the machine. `publicUrl` is where the hosted pages are reached. */
export function createLinks({
	keys,
	publicUrl,
	random,
}: {
	keys: TokenKeys;
	publicUrl: string;
	random: (size: number) => Uint8Array;
}): Links {
	const unsubscribe = new SealedToken(keys, 'unsubscribe', random);
	const consents = new SealedToken(keys, 'alert', random);
	const opens = new SealedToken(keys, 'open', random);
	const clicks = new SealedToken(keys, 'click', random);
	const returnPaths = new SignedIds(keys, {purpose: 'rp', letter: 'b', prefix: 'rcp'});
	const unsubscribeMail = new SignedIds(keys, {purpose: 'unsubscribe-mail', letter: 'u', prefix: 'rcp'});
	const refs = new SignedIds(keys, {purpose: 'ref', letter: 'r', prefix: 'rcp'});
	const replies = new SignedIds(keys, {purpose: 'reply', letter: 'p', prefix: 'rcp'});
	const messageIds = new SignedIds(keys, {purpose: 'message-id', letter: 'm', prefix: 'msg'});

	function pagesAt(url: string, alike: readonly string[]): PageLinks {
		const base = trimmed(url);
		const page = `${base}/unsubscribe`;
		const preferences = `${base}/preferences`;
		const own = [base, ...alike.map(trimmed)].flatMap(each => [`${each}/unsubscribe`, `${each}/preferences`]);
		const isOurs = (link: string) =>
			own.some(each => link === each || link.startsWith(`${each}?`) || link.startsWith(`${each}#`));
		return {
			unsubscribeUrl: claims => `${page}?token=${sealClaims(unsubscribe, claims)}`,
			preferencesUrl: link => preferences + link.slice(page.length),
			personUrl: person => {
				const claims: Claims = {...person, messageId: noMessage, topicId: null, role: 'to'};
				return `${preferences}?token=${sealClaims(unsubscribe, claims)}`;
			},
			openUrl: claims => `${base}/t/o/${sealClaims(opens, claims)}`,
			clickUrl: (claims, link) => {
				const token = isLink(link) && !isOurs(link) ? clicks.seal(writeClaims(claims, link)) : null;
				return token === null ? null : `${base}/t/c/${token}`;
			},
		};
	}

	const usual = pagesAt(publicUrl, []);

	function readMessageIdLocal(local: string): string | null {
		const read = messageIds.read(local);
		return read?.verify('') ? read.id : null;
	}

	return {
		...usual,
		under: host => (host === null ? usual : pagesAt(withHost(publicUrl, host), [publicUrl])),
		openUnsubscribe: (token, now) => openToken(unsubscribe, token, now),
		alertUrl: consent => `${trimmed(publicUrl)}${alertPagePath}?token=${consents.seal(writeConsent(consent))}`,
		readAlertConsent: token => {
			const content = consents.open(token);
			return content && readConsent(content);
		},
		readOpen: (token, now) => openToken(opens, token, now),
		readClick: (token, now) => openToken(clicks, token, now),
		returnPathLocal: (id, address) => returnPaths.sign(id, address),
		readReturnPath: token => returnPaths.read(token),
		unsubscribeLocal: (id, address) => unsubscribeMail.sign(id, address),
		readUnsubscribeLocal: token => unsubscribeMail.read(token),
		replyLocal: (id, address) => replyPrefix + replies.sign(id, address),
		readReplyLocal: local => (local.startsWith(replyPrefix) ? replies.read(local.slice(replyPrefix.length)) : null),
		ref: (id, address) => refs.sign(id, address),
		readRef: token => refs.read(token),
		messageIdLocal: messageId => messageIds.sign(messageId, ''),
		readMessageIdLocal,
		readMessageId: text => readMessageIdLocal(/^<?([^<>@]+)@[^<>@]*>?$/.exec(text.trim())?.[1] ?? ''),
	};
}

/** A base of links with another host; scheme, port and path stay. */
export function withHost(base: string, host: string): string {
	const url = new URL(base);
	url.hostname = host;
	return trimmed(url.href);
}

const trimmed = (url: string): string => url.replace(/\/+$/, '');

/** The longest tracked link, octets. An index of PostgreSQL takes no key of more than 2,704. */
const maxLinkLength = 2048;

function isLink(url: string): boolean {
	return (
		url.length <= maxLinkLength &&
		/^https?:\/\/[^\s\u0000-\u001f\u007f]+$/i.test(url) &&
		Buffer.byteLength(url) <= maxLinkLength &&
		URL.canParse(url)
	);
}

function sealClaims(sealed: SealedToken, claims: Claims): string {
	const token = sealed.seal(writeClaims(claims));
	if (token === null) {
		throw new Error('An address was longer than 254 octets.');
	}

	return token;
}

function openToken(sealed: SealedToken, token: string, now: number): Opened {
	const content = sealed.open(token);
	if (!content) {
		return {ok: false, fault: 'forged'};
	}

	const {claims, url} = readClaims(content, now);
	return claims.expiresAt <= now ? {ok: false, fault: 'expired', claims, url} : {ok: true, claims, url};
}
