import type {SuppressionReason} from '../../mail/suppression.ts';
import {signAws} from '../../net/aws-signature.ts';
import {type Fields, fieldsOf, isFields, textOf} from './provider.ts';

/** The account to read from. Without a region, the provider's default applies. */
type Account = {readonly region?: string; readonly domain?: string; readonly stream: string};

/** A provider's suppression lists in its API. Each list is imported with one reason. */
type SuppressionLists = {
	readonly at: (account: Account) => string;
	/** Keyed by what follows `at` in the URL of a list's first page. */
	readonly lists: Readonly<Record<string, SuppressionReason>>;
	readonly headers: (key: string, url: URL, account: Account, now: number) => Readonly<Record<string, string>>;
	/** The relay host whose password in MAILCTL_RELAY_URL is the API key, or `null` if there is none. */
	readonly relay: RegExp | null;
	readonly items: (body: unknown) => unknown;
	/** The field names of the address and its time in an item. */
	readonly names: readonly [address: string, since: string];
	/** Returns the URL of the page after one with `size` items, or an empty string if it was the last. */
	readonly next: (body: Fields, url: URL, size: number) => string;
};

const regional = (region: string | undefined) => (region === undefined ? '' : `${region}.`);

export const suppressionLists = {
	// https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_ListSuppressedDestinations.html
	ses: {
		at: ({region}) => `https://email.${region}.amazonaws.com/v2/email/suppression/addresses?PageSize=1000&Reason=`,
		lists: {BOUNCE: 'hard_bounce', COMPLAINT: 'complaint'},
		headers(key, url, {region = ''}, now) {
			const colon = key.indexOf(':');
			const [keyId, secret] = [key.slice(0, colon), key.slice(colon + 1)];
			return signAws({method: 'GET', url}, {keyId, secret, region, service: 'ses'}, now);
		},
		relay: null,
		items: body => fieldsOf(body).SuppressedDestinationSummaries,
		names: ['EmailAddress', 'LastUpdateTime'],
		next({NextToken: token}, url) {
			const next = new URL(url);
			next.searchParams.set('NextToken', textOf(token));
			return textOf(token) === '' ? '' : next.href;
		},
	},
	// https://postmarkapp.com/developer/api/suppressions-api: a dump has no pages.
	postmark: {
		at: ({stream}) =>
			`https://api.postmarkapp.com/message-streams/${encodeURIComponent(stream)}/suppressions/dump?SuppressionReason=`,
		lists: {
			HardBounce: 'hard_bounce',
			SpamComplaint: 'complaint',
			'ManualSuppression&Origin=Recipient': 'unsubscribe',
			'ManualSuppression&Origin=Customer': 'manual',
			'ManualSuppression&Origin=Admin': 'manual',
		},
		headers: key => ({'x-postmark-server-token': key}),
		relay: /^smtp(-broadcasts)?\.postmarkapp\.com$/,
		items: body => fieldsOf(body).Suppressions,
		names: ['EmailAddress', 'CreatedAt'],
		next: () => '',
	},
	// https://documentation.mailgun.com/docs/mailgun/api-reference/send/mailgun/bounces
	mailgun: {
		at: ({region, domain = ''}) => `https://api.${regional(region)}mailgun.net/v3/${encodeURIComponent(domain)}/`,
		lists: {
			'bounces?limit=500': 'hard_bounce',
			'complaints?limit=500': 'complaint',
			'unsubscribes?limit=500': 'unsubscribe',
		},
		headers: key => ({authorization: `Basic ${Buffer.from(`api:${key}`).toString('base64')}`}),
		relay: null,
		items: body => fieldsOf(body).items,
		names: ['address', 'created_at'],
		next: ({paging}, _url, size) => (size === 0 ? '' : textOf(fieldsOf(paging).next)),
	},
	// https://www.twilio.com/docs/sendgrid/api-reference/bounces-api/retrieve-all-bounces; its blocks are omitted,
	// because it continues to send to those addresses.
	sendgrid: {
		at: ({region}) => `https://api.${regional(region)}sendgrid.com/v3/suppression/`,
		lists: {
			'bounces?limit=500': 'hard_bounce',
			'invalid_emails?limit=500': 'hard_bounce',
			'spam_reports?limit=500': 'complaint',
			'unsubscribes?limit=500': 'unsubscribe',
		},
		headers: key => ({authorization: `Bearer ${key}`}),
		relay: /^smtp\.(eu\.)?sendgrid\.net$/,
		items: body => body,
		names: ['email', 'created'],
		next(_body, url, size) {
			const next = new URL(url);
			next.searchParams.set('offset', String(Number(url.searchParams.get('offset')) + size));
			return size === 0 ? '' : next.href;
		},
	},
} as const satisfies Readonly<Record<string, SuppressionLists>>;

export type ListingProvider = keyof typeof suppressionLists;
export const listingProviders = Object.keys(suppressionLists) as readonly ListingProvider[];

/**
 * Returns the unvalidated entries of a page and the URL of the next one (`null` if there is none), or `null` if the
 * body is not such a page.
 */
export function readPage(name: ListingProvider, body: unknown, url: URL) {
	const {items, names, next}: SuppressionLists = suppressionLists[name];
	const [address, since] = names;
	const listed = items(body);
	if (!Array.isArray(listed) || !listed.every(isFields)) {
		return null;
	}
	const entries = listed.map(item => ({address: textOf(item[address]), since: textOf(item[since])}));
	return {entries, next: next(fieldsOf(body), url, entries.length) || null};
}
