import {createHash} from 'node:crypto';
import {toBuffer} from '../kit/text.ts';
import {signAws} from '../net/aws-signature.ts';
import {type ProviderClient, ProviderHostError, type ProviderRequest} from '../net/provider-client.ts';
import {conceal, type Login, type RelayApi} from '../net/relay-url.ts';
import {readApiResponse} from './api-answer.ts';
import type {Dialogue} from './dialogue.ts';
import type {Host} from './host.ts';
import type {Accepted, Delivery} from './transaction.ts';
import {readable, type Stop} from './verdict.ts';

/** A provider that accepts messages through its HTTPS API. */
export type ApiHost = Host & {readonly api: RelayApi};

/** The client for provider APIs, and the conversion that Postmark needs. */
export type Apis = {
	readonly client: Pick<ProviderClient, 'send'>;
	/** Converts a message to one recipient to the JSON of Postmark's API, or returns why that is impossible. */
	readonly postmarkMail: (data: Buffer, to: string) => object | string;
};

/** `now` is in milliseconds since the epoch. */
type Tools = Apis & {readonly now: number};

/** Gateway errors: the provider behind it may have accepted the message (RFC 9110 §15.6.3, §15.6.5). */
const gatewayErrors: ReadonlySet<number> = new Set([502, 504]);

/**
 * Sends a message to one recipient through a provider's API. The response is converted to the equivalent SMTP reply, so
 * that the same rules judge it. If no response arrives, the message may have been accepted once the whole request was
 * sent.
 */
export async function sendByApi(
	host: ApiHost,
	job: Delivery,
	{dialogue, ...tools}: Tools & {readonly dialogue: Dialogue},
): Promise<Accepted | Stop> {
	if (job.envelope.smtputf8) {
		return {by: 'utf8', phase: 'ehlo', text: `${host.name} does not support non-ASCII addresses`};
	}
	const login: Login = host.login ?? {user: '', password: ''};
	const request = requests[host.api](host.name, job, login, tools);
	if (typeof request === 'string') {
		return {by: 'size', phase: 'ehlo', text: `${host.name} cannot send this message unchanged: ${request}`};
	}
	const {url, init} = request;
	dialogue.sent(`POST ${url.href}`);
	dialogue.sent(init.body);
	try {
		const response = await tools.client.send(host.api, url, init);
		const {phase, code, text} = readApiResponse(host.api, response);
		const reply = {code, lines: [conceal(login, text)]};
		dialogue.received(reply);
		if (gatewayErrors.has(response.status)) {
			return {by: 'loss', phase: 'dot', text: conceal(login, text)};
		}
		return code < 400
			? {by: 'acceptance', phase: 'dot', reply: readable(reply)}
			: {by: 'reply', phase, reply: readable(reply)};
	} catch (error) {
		if (!(error instanceof ProviderHostError)) {
			throw error;
		}
		const text = conceal(login, error.message);
		dialogue.noted(text);
		return {by: 'loss', phase: error.isSent ? 'dot' : 'connect', text};
	}
}

type Request = {readonly url: URL; readonly init: ProviderRequest & {readonly body: Buffer}};

const requests: Readonly<
	Record<RelayApi, (host: string, job: Delivery, login: Login, tools: Tools) => Request | string>
> = {
	/** https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_SendEmail.html */
	ses(host, {envelope: {from, to}, data}, {user: keyId, password: secret}, {now}) {
		const url = new URL(`https://${host}/v2/email/outbound-emails`);
		const body = toJson({
			...(from !== '' && {FromEmailAddress: from}),
			Destination: {ToAddresses: [to]},
			Content: {Raw: {Data: toBuffer(data).toString('base64')}},
		});
		const [, region = ''] = host.split('.');
		const signatureHeaders = signAws({method: 'POST', url, body}, {keyId, secret, region, service: 'ses'}, now);
		return post(url, body, {'content-type': 'application/json', ...signatureHeaders});
	},
	/**
	 * https://documentation.mailgun.com/docs/mailgun/api-reference/send/mailgun/messages/post-v3--domain-name--messages.mime
	 */
	mailgun(host, {envelope: {to}, data}, {user: domain, password: key}) {
		// The boundary is a hash of the message, so the message cannot contain it.
		const boundary = createHash('sha256').update(data).digest('hex');
		const part = (name: string, suffix: string) =>
			`--${boundary}\r\nContent-Disposition: form-data; name="${name}"${suffix}`;
		const body = Buffer.concat([
			Buffer.from(`${part('to', '')}\r\n\r\n${to}\r\n`),
			Buffer.from(`${part('message', '; filename="message.eml"')}\r\nContent-Type: message/rfc822\r\n\r\n`),
			data,
			Buffer.from(`\r\n--${boundary}--\r\n`),
		]);
		return post(new URL(`https://${host}/v3/${domain}/messages.mime`), body, {
			'content-type': `multipart/form-data; boundary=${boundary}`,
			authorization: `Basic ${Buffer.from(`api:${key}`).toString('base64')}`,
		});
	},
	/** https://postmarkapp.com/developer/api/email-api */
	postmark(host, {envelope: {to}, data}, {password: token}, {postmarkMail}) {
		const json = postmarkMail(toBuffer(data), to);
		if (typeof json === 'string') {
			return json;
		}
		return post(new URL(`https://${host}/email`), toJson(json), {
			'content-type': 'application/json',
			accept: 'application/json',
			'x-postmark-server-token': token,
		});
	},
};

function post(url: URL, body: Buffer, headers: Readonly<Record<string, string>>): Request {
	return {url, init: {method: 'POST', headers, body}};
}

const toJson = (value: object): Buffer => Buffer.from(JSON.stringify(value));
