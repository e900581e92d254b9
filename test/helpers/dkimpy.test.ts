import {generateKeyPairSync} from 'node:crypto';
import test from 'ava';
import {createTransport} from 'nodemailer';
import {verifyWithDkimpy} from './dkimpy.ts';

test('dkimpy tells a good signature from a broken one, an unknown key and none', async t => {
	const {privateKey, publicKey} = generateKeyPairSync('rsa', {modulusLength: 2048});
	const client = createTransport({
		streamTransport: true,
		buffer: true,
		newline: 'windows',
		dkim: {
			domainName: 'shop.example',
			keySelector: 'mc1',
			privateKey: privateKey.export({type: 'pkcs8', format: 'pem'}).toString(),
		},
	});
	const {message} = await client.sendMail({
		from: 'a@shop.example',
		to: 'b@x.example',
		subject: 'good',
		text: '.\r\n',
	});
	const good = message as Buffer;
	const broken = Buffer.from(good.toString('latin1').replace('good', 'evil'), 'latin1');
	const record = `v=DKIM1; k=rsa; p=${publicKey.export({type: 'spki', format: 'der'}).toString('base64')}`;

	const verified = await verifyWithDkimpy(t, [good, broken, Buffer.from('Subject: x\r\n\r\nx\r\n')], {
		'mc1._domainkey.shop.example': record,
	});
	if (!verified) {
		return;
	}

	t.deepEqual(
		verified.map(signatures => signatures.map(({valid}) => valid)),
		[[true], [false], []],
	);
	const [signature] = verified[0] ?? [];
	t.like(signature, {domain: 'shop.example', selector: 'mc1', algorithm: 'rsa-sha256', error: null});
	t.true(signature?.headers.includes('subject'));

	const unknown = await verifyWithDkimpy(t, [good], {});
	t.false(unknown?.[0]?.[0]?.valid);
});
