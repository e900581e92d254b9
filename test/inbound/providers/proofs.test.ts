import {createHmac, createSign, generateKeyPairSync, sign} from 'node:crypto';
import test from 'ava';
import type {Incoming} from '../../../src/inbound/providers/provider.ts';
import {providers} from '../../../src/inbound/providers/providers.ts';
import {readSns} from '../../../src/inbound/providers/ses.ts';
import {makeRsaCertificate} from '../../helpers/certificate.ts';

const now = Date.parse('2026-11-20T08:15:30Z');
const seconds = String(now / 1000);
const post = (text: string, headers: Incoming['headers'] = {}): Incoming => ({body: Buffer.from(text), headers});

test('SendGrid: accepts only a signature of timestamp and body by the configured key', t => {
	const {publicKey, privateKey} = generateKeyPairSync('ec', {namedCurve: 'P-256'});
	const secret = publicKey.export({type: 'spki', format: 'der'}).toString('base64');
	const signed = (body: string, key = privateKey) =>
		post(body, {
			'x-twilio-email-event-webhook-timestamp': seconds,
			'x-twilio-email-event-webhook-signature': sign('sha256', Buffer.from(seconds + body), key).toString(
				'base64',
			),
		});
	const {isFromProvider} = providers.sendgrid;
	const good = signed('[{}]');
	t.true(isFromProvider(good, secret, now));
	t.true(isFromProvider(good, publicKey.export({type: 'spki', format: 'pem'}) as string, now));
	t.false(isFromProvider({...good, body: Buffer.from('[{"event":"bounce"}]')}, secret, now));
	t.false(
		isFromProvider(
			{...good, headers: {...good.headers, 'x-twilio-email-event-webhook-timestamp': '1'}},
			secret,
			now,
		),
	);
	t.false(isFromProvider(signed('[{}]', generateKeyPairSync('ec', {namedCurve: 'P-256'}).privateKey), secret, now));
	t.false(isFromProvider(post('[{}]'), secret, now));
	t.false(isFromProvider(good, 'no key', now));
	t.true(isFromProvider(good, secret, now + 24 * 3_600_000), 'it is posted again for a day');
	t.false(isFromProvider(good, secret, now + 26 * 3_600_000));
	t.false(isFromProvider(good, secret, now - 3_600_000));
});

test('Mailgun: accepts a signature of timestamp and token within Mailgun’s retry period', t => {
	const signed = (at: number, key = 'key') => {
		const [timestamp, token] = [String(at), 'a'.repeat(50)];
		const signature = createHmac('sha256', key)
			.update(timestamp + token)
			.digest('hex');
		return post(JSON.stringify({signature: {timestamp, token, signature}, 'event-data': {event: 'delivered'}}));
	};
	const {isFromProvider} = providers.mailgun;
	t.true(isFromProvider(signed(now / 1000), 'key', now));
	t.true(isFromProvider(signed(now / 1000 - 8 * 3600), 'key', now));
	t.false(isFromProvider(signed(now / 1000 - 10 * 3600), 'key', now));
	t.false(isFromProvider(signed(now / 1000 + 3600), 'key', now));
	t.false(isFromProvider(signed(now / 1000), 'other', now));
	t.false(isFromProvider(signed(now / 1000, 'other'), 'key', now));
	const moved = (timestamp: string, token: string) => {
		const signature = createHmac('sha256', 'key').update(`${timestamp}${token}`).digest('hex');
		return post(JSON.stringify({signature: {timestamp, token, signature}, 'event-data': {event: 'delivered'}}));
	};
	t.true(isFromProvider(moved(seconds, 'e0a'), 'key', now));
	t.false(isFromProvider(moved(`${seconds}e0`, 'a'), 'key', now), 'the same octets would make another token');
	t.false(isFromProvider(moved(` ${seconds}`, 'a'), 'key', now));
	for (const body of ['', '{', '[]', 'null', '{"signature":null}', '{"signature":{"timestamp":"x"}}']) {
		t.false(isFromProvider(post(body), 'key', now), body);
	}
});

test('providers without signatures: accepts the secret by Basic, Bearer or our own header', t => {
	const basic = (text: string) => ({authorization: `Basic ${Buffer.from(text).toString('base64')}`});
	for (const name of ['postmark', 'brevo', 'mailjet', 'sparkpost'] as const) {
		const {isFromProvider, secret: origin} = providers[name];
		t.is(origin, 'ours');
		for (const headers of [
			basic('mailctl:s3cret'),
			basic('s3cret:'),
			{authorization: 'bearer s3cret'},
			{'x-mailctl-secret': 's3cret'},
		]) {
			t.true(isFromProvider(post('{}', headers), 's3cret', now), JSON.stringify(headers));
			t.false(isFromProvider(post('{}', headers), 's3cre', now));
		}
		for (const headers of [
			{},
			basic('mailctl:'),
			basic(''),
			{authorization: 's3cret'},
			{'x-mailctl-secret': ['s3cret', 's3cret']},
		]) {
			t.false(isFromProvider(post('{}', headers), 's3cret', now), JSON.stringify(headers));
		}
	}
});

test('generic: accepts the signature of our webhooks within five minutes', t => {
	const signed = (body: string, at: number) =>
		post(body, {
			'x-webhook-timestamp': String(at),
			'x-webhook-signature': `sha256=${createHmac('sha256', 'whsec').update(`${at}.${body}`).digest('hex')}`,
		});
	const {isFromProvider} = providers.generic;
	t.true(isFromProvider(signed('{}', now / 1000), 'whsec', now));
	t.true(isFromProvider(signed('{}', now / 1000 - 300), 'whsec', now));
	t.false(isFromProvider(signed('{}', now / 1000 - 301), 'whsec', now));
	t.false(isFromProvider(signed('{}', now / 1000 + 301), 'whsec', now));
	t.false(isFromProvider({...signed('{}', now / 1000), body: Buffer.from('{ }')}, 'whsec', now));
	t.false(isFromProvider(post('{}'), 'whsec', now));
});

test('SNS: accepts both signature versions with a certificate from an SNS host', t => {
	const {key, cert} = makeRsaCertificate('sns.eu-west-1.amazonaws.com');
	const today = Date.now();
	const message = {
		Type: 'Notification',
		MessageId: '22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324',
		TopicArn: 'arn:aws:sns:eu-west-1:123456789012:mailctl',
		Subject: 'Amazon SES Email Event Notification',
		Message: '{"eventType":"Send"}',
		Timestamp: '2026-11-20T08:15:30.000Z',
		SigningCertURL:
			'https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-7ff5318490ec183fbaddaa2a969abfda.pem',
	};
	const signed = (fields: Record<string, string>, version: '1' | '2') => {
		const names = ['Message', 'MessageId', 'Subject', 'SubscribeURL', 'Timestamp', 'Token', 'TopicArn', 'Type'];
		const signer = createSign(version === '1' ? 'sha1' : 'sha256');
		for (const name of names.filter(one => fields[one] !== undefined)) {
			signer.update(`${name}\n${fields[name]}\n`);
		}
		return {...fields, SignatureVersion: version, Signature: signer.sign(key, 'base64')};
	};
	for (const version of ['1', '2'] as const) {
		const good = signed(message, version);
		t.true(readSns(good)?.isSignedBy(cert, today));
		t.false(readSns({...good, Message: '{"eventType":"Bounce"}'})?.isSignedBy(cert, today));
		t.false(readSns({...good, SignatureVersion: version === '1' ? '2' : '1'})?.isSignedBy(cert, today));
		t.false(readSns(good)?.isSignedBy(makeRsaCertificate('other.example').cert, today));
		t.false(readSns(good)?.isSignedBy(cert, today + 10 * 86_400_000), 'an expired certificate proves nothing');
		t.false(readSns(good)?.isSignedBy('no certificate', today));
	}
	const {Subject: _, ...plain} = message;
	const asked = {
		...plain,
		Type: 'SubscriptionConfirmation',
		Token: '2336412f37',
		SubscribeURL: 'https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription&Token=2336412f37',
	};
	const confirmation = readSns(signed(asked, '2'));
	t.true(confirmation?.isSignedBy(cert, today));
	t.is(confirmation?.subscribeUrl?.href, asked.SubscribeURL);
	t.is(readSns({...signed(asked, '2'), SubscribeURL: 'https://sns.eu-west-1.amazonaws.com.evil.example/'}), null);
});

test('SNS: treats a message older than an hour as a replay', t => {
	const read = (Timestamp: unknown) =>
		readSns({
			...{Type: 'Notification', SignatureVersion: '2', Timestamp},
			SigningCertURL: 'https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-1.pem',
		})?.isRecent(now);
	const at = (ms: number) => new Date(now + ms).toISOString();
	for (const Timestamp of [at(0), at(-3_600_000), at(240_000)]) {
		t.true(read(Timestamp), Timestamp);
	}
	for (const Timestamp of [at(-3_600_001), at(-86_400_000), at(3_600_000), '', 'soon', undefined, null, {}]) {
		t.false(read(Timestamp), String(Timestamp));
	}
});

test('SNS: refuses a URL with another host, scheme, port or user', t => {
	const read = (SigningCertURL: unknown) => readSns({Type: 'Notification', SignatureVersion: '1', SigningCertURL});
	const file = 'SimpleNotificationService-9c6465fa7f48f5cacd23014631ec1136.pem';
	const regions =
		'us-east-1 ap-southeast-7 us-gov-west-1 us-isob-east-1 eusc-de-east-1 ca-central-1 me-south-1 il-central-1';
	for (const host of [
		...regions.split(' ').map(region => `${region}.amazonaws.com`),
		'cn-north-1.amazonaws.com.cn',
	]) {
		t.truthy(read(`https://sns.${host}/${file}`), host);
	}
	t.truthy(read(`https://sns.eu-west-1.amazonaws.com:443/${file}`));
	for (const host of [
		'sns.s3.amazonaws.com',
		'sns.s3-us-west-2.amazonaws.com',
		'sns.s3.eu-west-1.amazonaws.com',
		'sns.s3-accelerate.amazonaws.com',
		'sns.s3-website-us-east-1.amazonaws.com',
		'sns.s3-website.eu-central-1.amazonaws.com',
		'sns.s3.cn-north-1.amazonaws.com.cn',
		's3.eu-west-1.amazonaws.com/sns',
		'sns.execute-api.amazonaws.com',
		'sns.eu-west-1.elb.amazonaws.com',
		'sns.eu-west-1.amazonaws.com.evil.test',
		'sns.eu-west-1.amazonaws.com.',
		'sns.eu-west-1.amazonaws.co',
		'sns.eu-west.amazonaws.com',
		'sns.eu-west-1-x.amazonaws.com',
		'sns.cn.amazonaws.com',
		'sns-eu-west-1.amazonaws.com',
		'sns.eu-west-1.amazonaws.com@evil.test',
		'evil.test#@sns.eu-west-1.amazonaws.com',
		':secret@sns.eu-west-1.amazonaws.com',
		'sns.eu-west-1.amazonaws.com:8443',
		'sns.eu-west-1.amazonaws.com/sns',
	]) {
		t.is(read(`https://${host}/${file}`), null, host);
	}
	for (const path of [
		'cert.pem',
		`${file}?a=b`,
		`${file}#a`,
		`a/${file}`,
		`${file}/a.pem`,
		'SimpleNotificationService-.pem',
	]) {
		t.is(read(`https://sns.eu-west-1.amazonaws.com/${path}`), null, path);
	}
	for (const url of [
		'http://sns.eu-west-1.amazonaws.com/a.pem',
		'https://sns.eu-west-1.amazonaws.com/a.pem?b=.txt#/a',
		'https://sns.eu-west-1.amazonaws.com:8443/a.pem',
		'https://user@sns.eu-west-1.amazonaws.com/a.pem',
		'https://evil.example/sns.eu-west-1.amazonaws.com/a.pem',
		'https://sns.eu-west-1.amazonaws.com.evil.example/a.pem',
		'https://bucket.s3.amazonaws.com/a.pem',
		'https://sns.eu.west.amazonaws.com/a.pem',
		'https://xsns.eu-west-1.amazonaws.com/a.pem',
		'https://sns.eu-west-1.amazonaws.com/a.txt',
		'',
		7,
	]) {
		t.is(read(url), null, String(url));
	}
});
