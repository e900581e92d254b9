import {noMessage} from '../../mail/ids.ts';
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

/** The result of opening a token. An expired one still reveals its owner, for the page that explains it. */
type Opened =
	/** `url` is the target of a click, empty for other kinds. */
	| {readonly ok: true; readonly claims: Claims; readonly url: string}
	| {readonly ok: false; readonly fault: 'forged'}
	| {readonly ok: false; readonly fault: 'expired'; readonly claims: Claims; readonly url: string};

/** Creates the URLs of hosted pages. */
export type PageLinks = {
	readonly unsubscribeUrl: (claims: Claims) => string;
	/** The preference page, with the token of an unsubscribe URL. */
	readonly preferencesUrl: (unsubscribeUrl: string) => string;
	/** The preference page of a person, with a token that is in no message. */
	readonly personUrl: (person: Pick<Claims, 'workspaceId' | 'address' | 'expiresAt'>) => string;
	/** The URL of the pixel that reports an open. */
	readonly openUrl: (claims: Claims) => string;
	/**
	 * The tracked form of a link. `null` if it is not an http(s) URL, is too long, or is a page of mailctl; such links
	 * are not changed.
	 */
	readonly clickUrl: (claims: Claims, url: string) => string | null;
};

export type Links = PageLinks & {
	/** The pages under a domain's link host, or under the public URL if `null`. */
	readonly under: (linkHost: string | null) => PageLinks;
	readonly openUnsubscribe: (token: string, now: number) => Opened;
	/** The page where an address consents to a workspace's alerts. */
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
	/** The local part of the address for a recipient's replies: `reply+p` and 44 characters. */
	readonly replyLocal: (recipientId: string, address: string) => string;
	readonly readReplyLocal: (localPart: string) => SignedId | null;
	/** The value of X-Mailctl-Ref and of the envelope id: `r` and 44 characters. */
	readonly ref: (recipientId: string, address: string) => string;
	readonly readRef: (token: string) => SignedId | null;
	/** The left side of the Message-ID, which all recipients of a message share: `m` and 44 characters. */
	readonly messageIdLocal: (messageId: string) => string;
	/** The message's id, or `null` if mailctl did not create the Message-ID. */
	readonly readMessageIdLocal: (local: string) => string | null;
	/** The same for a whole Message-ID, with or without angle brackets. */
	readonly readMessageId: (messageId: string) => string | null;
};

const replyPrefix = 'reply+';
/** Under `/t/`, which reverse proxies in front of mailctl already forward. */
export const alertPagePath = '/t/alerts';

/** Returns the Message-ID of a message from this address, without angle brackets. */
export function toMessageId({messageIdLocal}: Pick<Links, 'messageIdLocal'>, messageId: string, from: string): string {
	return messageIdLocal(messageId) + from.slice(from.lastIndexOf('@'));
}

/**
 * Creates and reads every token that leaves the machine. `publicUrl` is the base of the hosted pages.
 *
 * This is the main function of the folder, which also rewrites links for tracking. It relies on the token keys alone:
 * all that a link needs is in its token, so it works after the message is deleted. It never reads the store, and a
 * token of one purpose is never valid for another.
 */
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

	function pagesAt(url: string, aliases: readonly string[]): PageLinks {
		const base = trimSlash(url);
		const unsubscribePage = `${base}/unsubscribe`;
		const preferencesPage = `${base}/preferences`;
		const pages = [base, ...aliases.map(trimSlash)].flatMap(root => [`${root}/unsubscribe`, `${root}/preferences`]);
		const isOwnPage = (link: string) =>
			pages.some(page => link === page || link.startsWith(`${page}?`) || link.startsWith(`${page}#`));
		return {
			unsubscribeUrl: claims => `${unsubscribePage}?token=${sealClaims(unsubscribe, claims)}`,
			preferencesUrl: link => preferencesPage + link.slice(unsubscribePage.length),
			personUrl: person => {
				const claims: Claims = {...person, messageId: noMessage, topicId: null, role: 'to'};
				return `${preferencesPage}?token=${sealClaims(unsubscribe, claims)}`;
			},
			openUrl: claims => `${base}/t/o/${sealClaims(opens, claims)}`,
			clickUrl: (claims, link) => {
				const token = isLink(link) && !isOwnPage(link) ? clicks.seal(writeClaims(claims, link)) : null;
				return token === null ? null : `${base}/t/c/${token}`;
			},
		};
	}

	const defaultPages = pagesAt(publicUrl, []);

	function readMessageIdLocal(local: string): string | null {
		const read = messageIds.read(local);
		return read?.verify('') ? read.id : null;
	}

	return {
		...defaultPages,
		under: host => (host === null ? defaultPages : pagesAt(withHost(publicUrl, host), [publicUrl])),
		openUnsubscribe: (token, now) => openToken(unsubscribe, token, now),
		alertUrl: consent => `${trimSlash(publicUrl)}${alertPagePath}?token=${consents.seal(writeConsent(consent))}`,
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

/** Returns a base URL with another host. Scheme, port and path are unchanged. */
export function withHost(base: string, host: string): string {
	const url = new URL(base);
	url.hostname = host;
	return trimSlash(url.href);
}

const trimSlash = (url: string): string => url.replace(/\/+$/, '');

/** The maximum length of a tracked link, in octets. PostgreSQL limits index keys to 2,704. */
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
