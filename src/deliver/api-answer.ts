import {objectOf, parsedJson} from '../kit/exact-json.ts';
import type {Phase} from '../mail/outcome.ts';
import type {ProviderResponse} from '../net/provider-client.ts';
import type {RelayApi} from '../net/relay-url.ts';

/** A provider's API response, expressed as the SMTP reply with the same meaning. */
type ApiReply = {readonly phase: Phase; readonly code: number; readonly text: string};

type Meaning = Omit<ApiReply, 'text'> & {readonly enhanced: string};

const accepted: Meaning = {phase: 'dot', code: 250, enhanced: '2.0.0'};
/** The key, signature, account or path is invalid. This is a configuration error, so the message stays queued. */
const lockedOut: Meaning = {phase: 'auth', code: 535, enhanced: '5.7.8'};
/** The account is not allowed to send at the moment. */
const halted: Meaning = {phase: 'auth', code: 454, enhanced: '4.7.0'};
const throttled: Meaning = {phase: 'dot', code: 421, enhanced: '4.7.0'};
const failing: Meaning = {phase: 'dot', code: 451, enhanced: '4.3.0'};
const refused: Meaning = {phase: 'dot', code: 554, enhanced: '5.6.0'};
const tooBig: Meaning = {phase: 'dot', code: 552, enhanced: '5.3.4'};
/** The provider does not know or does not trust the sender. */
const senderRefused: Meaning = {phase: 'mail', code: 554, enhanced: '5.7.1'};
const senderWaits: Meaning = {phase: 'mail', code: 451, enhanced: '4.7.1'};
/** The address is on the provider's suppression list. */
const suppressed: Meaning = {phase: 'rcpt', code: 550, enhanced: '5.2.1'};

const byStatus: ReadonlyMap<number, Meaning> = new Map([
	[400, refused],
	...[401, 402, 403, 404].map(status => [status, lockedOut] as const),
	[413, tooBig],
	[422, refused],
	[429, throttled],
]);

type ErrorPattern = readonly [RegExp, Meaning];

/** Patterns for errors whose HTTP status is not specific enough, matched in order against `name: message`. */
const errorPatterns: Readonly<Record<RelayApi, readonly ErrorPattern[]>> = {
	/** https://docs.aws.amazon.com/ses/latest/APIReference-V2/CommonErrors.html */
	ses: [
		[/^(?:AccountSuspended|SendingPaused)/, halted],
		[/^(?:TooManyRequests|LimitExceeded|Throttling)/, throttled],
		[/^MailFromDomainNotVerified/, senderWaits],
		[/^MessageRejected\w*: .*(?:not verified|identit)/i, senderRefused],
		[/^(?:IncompleteSignature|SignatureDoesNotMatch|InvalidClientTokenId|MissingAuthenticationToken)/, lockedOut],
		[/^(?:ServiceUnavailable|InternalFailure|InternalServiceError|RequestExpired)/, failing],
	],
	mailgun: [[/not allowed to send|account .*(?:disabled|suspended)|domain .*(?:disabled|unverified)/i, halted]],
	/** https://postmarkapp.com/developer/api/overview#error-codes */
	postmark: [
		[/^10:/, lockedOut],
		[/^40[01]:/, senderRefused],
		[/^(?:405|412|413):/, halted],
		[/^406:/, suppressed],
		[/^100:/, failing],
		[/^(?!0:)\d+:/, refused],
	],
};

/** Converts a provider's API response to an SMTP reply. Errors not known to be permanent count as temporary. */
export function readApiResponse(api: RelayApi, {status, headers, body}: ProviderResponse): ApiReply {
	const json = objectOf(parsedJson(body));
	const message = textOf(json.message ?? json.Message) || body.slice(0, 300) || 'no error text';
	const error = [errorId(api, headers, json), message].filter(Boolean).join(': ');
	const isSpecific = status < 500 && status !== 401 && status !== 403 && status !== 429;
	const matched = isSpecific ? errorPatterns[api].find(([pattern]) => pattern.test(error))?.[1] : undefined;
	if (status >= 200 && status < 300 && (api !== 'postmark' || matched === undefined)) {
		const id = textOf(json.MessageId ?? json.MessageID ?? json.id).replace(/[<>\s]/g, '');
		return toReply(accepted, id === '' ? 'Ok' : `Ok: queued as ${id}`);
	}
	const meaning = matched ?? byStatus.get(status) ?? failing;
	const wait = Number(headers['retry-after']);
	return toReply(meaning, `${error} (HTTP ${status})${wait > 0 ? `, try again in ${Math.ceil(wait)} seconds` : ''}`);
}

function toReply({phase, code, enhanced}: Meaning, text: string): ApiReply {
	return {phase, code, text: `${enhanced} ${text}`};
}

/** Returns the provider's name for an error: SES sends it in a header field, Postmark as a number. */
function errorId(api: RelayApi, headers: ProviderResponse['headers'], json: Readonly<Record<string, unknown>>): string {
	const type = api === 'ses' ? textOf(headers['x-amzn-errortype'] ?? json.__type) : textOf(json.ErrorCode);
	return type.replace(/^.*#|:.*$/g, '');
}

const textOf = (value: unknown): string =>
	typeof value === 'string' || typeof value === 'number' ? String(value) : '';
