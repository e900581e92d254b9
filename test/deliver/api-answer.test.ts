import test from 'ava';
import {readApiResponse} from '../../src/deliver/api-answer.ts';
import {verdict} from '../../src/deliver/verdict.ts';
import {providerIdIn, smtpReply} from '../../src/mail/outcome.ts';
import type {RelayApi} from '../../src/net/relay-url.ts';
import {classify} from '../helpers/classify.ts';

type Row = readonly [api: RelayApi, status: number, body: object | string, type: string, expected: string];

const ses = (status: number, type: string, message: string, expected: string): Row => [
	...(['ses', status, {message}, `${type}:http://internal.amazon.com/coral/com.amazonaws.ses/`] as const),
	expected,
];
const postmark = (status: number, ErrorCode: number, Message: string, expected: string): Row => [
	...(['postmark', status, {ErrorCode, Message}, ''] as const),
	expected,
];
const mailgun = (status: number, message: string, expected: string): Row => [
	...(['mailgun', status, {message}, ''] as const),
	expected,
];

/** The recipient's outcome and category, with `!` if the address is suppressed. */
const rows: readonly Row[] = [
	ses(403, 'SignatureDoesNotMatchException', 'The request signature we calculated does not match', 'deferred config'),
	ses(403, 'AccessDeniedException', 'User is not authorized to perform ses:SendEmail', 'deferred config'),
	ses(400, 'IncompleteSignatureException', 'no', 'deferred config'),
	ses(400, 'AccountSuspendedException', 'Your account is suspended', 'deferred config'),
	ses(400, 'SendingPausedException', 'Sending is paused', 'deferred config'),
	ses(429, 'TooManyRequestsException', 'Maximum sending rate exceeded.', 'deferred rate'),
	ses(400, 'LimitExceededException', 'Daily message quota exceeded', 'deferred rate'),
	ses(400, 'MailFromDomainNotVerifiedException', 'The MAIL FROM domain has no MX', 'deferred'),
	ses(400, 'MessageRejected', 'Email address is not verified. The following identities failed', 'bounced sender'),
	ses(400, 'MessageRejected', 'The message contains a virus', 'bounced virus'),
	ses(400, 'BadRequestException', 'Domain contains illegal character', 'bounced'),
	ses(500, 'InternalFailure', 'oops', 'deferred'),
	ses(503, '', '', 'deferred'),
	postmark(401, 10, 'Request does not contain a valid Server token.', 'deferred config'),
	postmark(422, 300, 'Invalid email request', 'bounced'),
	postmark(422, 400, 'The Sender Signature was not found', 'bounced sender'),
	postmark(422, 405, 'You have run out of credits', 'deferred config'),
	postmark(422, 406, 'You tried to send to a recipient that has been marked as inactive.', 'bounced disabled !'),
	postmark(200, 406, 'You tried to send to a recipient that has been marked as inactive.', 'bounced disabled !'),
	postmark(413, 0, 'Payload too large', 'bounced too_big'),
	postmark(429, 429, 'Rate limit exceeded', 'deferred rate'),
	postmark(503, 100, 'Maintenance', 'deferred'),
	mailgun(400, 'to parameter is not a valid address. please check documentation', 'bounced'),
	mailgun(400, 'Domain mg.shop.example is not allowed to send: the account is disabled', 'deferred config'),
	['mailgun', 401, 'Forbidden', '', 'deferred config'],
	mailgun(402, 'Payment required', 'deferred config'),
	mailgun(404, 'Domain not found: mg.shop.example', 'deferred config'),
	mailgun(429, 'Too many requests', 'deferred rate'),
	['mailgun', 502, '<html>Bad Gateway</html>', '', 'deferred'],
	['mailgun', 301, '', '', 'deferred'],
];

for (const [api, status, body, type, expected] of rows) {
	const text = typeof body === 'string' ? body : JSON.stringify(body);
	test(`${api} ${status} ${type.split(':')[0]} ${text.slice(0, 70)}: ${expected}`, t => {
		const {
			phase,
			code,
			text: line,
		} = readApiResponse(api, {status, headers: {'x-amzn-errortype': type}, body: text});
		const reply = smtpReply(code, [line]);
		t.is(reply.enhanced?.[0], String(code)[0]);
		const circumstances = {host: 'api.test', isRelay: true, hasTlsFailed: false, isHeloOnly: false, classify};
		const {outcome, next} = verdict({by: 'reply', phase, reply}, circumstances);
		const category = 'category' in outcome ? outcome.category : '';
		const said = `${outcome.kind} ${category}${outcome.kind === 'bounced' && outcome.suppresses ? ' !' : ''}`;
		t.true(said.startsWith(expected), said);
		t.is(said.endsWith('!'), expected.endsWith('!'), said);
		t.is(next, outcome.kind === 'bounced' ? 'none' : 'host', 'another smarthost may take what waits');
	});
}

test('reads the provider’s message id, which its events refer to', t => {
	const idOf = (api: RelayApi, body: object | string) => {
		const text = typeof body === 'string' ? body : JSON.stringify(body);
		const {code, text: line} = readApiResponse(api, {status: 200, headers: {}, body: text});
		t.is(code, 250);
		return providerIdIn(smtpReply(code, [line]).text);
	};
	t.is(idOf('ses', {MessageId: '0102019a-1-000000'}), '0102019a-1-000000');
	t.is(
		idOf('mailgun', {id: '<2025.1.A@mg.shop.example>', message: 'Queued. Thank you.'}),
		'2025.1.A@mg.shop.example',
	);
	t.is(idOf('postmark', {ErrorCode: 0, Message: 'OK', MessageID: 'b7bc2f4a-e38e'}), 'b7bc2f4a-e38e');
	t.is(idOf('mailgun', 'OK'), null);
});

test('passes Retry-After on to the retry schedule', t => {
	const {text} = readApiResponse('ses', {status: 429, headers: {'retry-after': '90'}, body: '{}'});
	const circumstances = {host: 'api.test', isRelay: true, hasTlsFailed: false, isHeloOnly: false, classify};
	const {outcome} = verdict({by: 'reply', phase: 'dot', reply: smtpReply(421, [text])}, circumstances);
	t.like(outcome, {kind: 'deferred', waitMs: 90_000});
});
