import test from 'ava';
import fc from 'fast-check';
import {createCompose} from '../../src/compose/compose.ts';
import {dkimRecordValue, generateSigningKeys, importSigningKey} from '../../src/compose/dkim.ts';
import {anyLetter} from '../compose/any-letter.ts';
import {answer, international, invoice, note, pictured, receipt} from '../compose/letters.ts';
import {verifyWithDkimpy} from '../helpers/dkimpy.ts';
import {verifyWithOpendkim} from '../helpers/opendkim.ts';

const compose = createCompose();
test('dkimpy verifies both signatures of every message, and neither after a second Subject is added', async t => {
	const domain = 'shop.example';
	const pems = await generateSigningKeys();
	const keys = [
		importSigningKey({domain, selector: 'mc1', algorithm: 'rsa-sha256', privateKeyPem: pems.rsa}),
		importSigningKey({domain, selector: 'mc2', algorithm: 'ed25519-sha256', privateKeyPem: pems.ed25519}),
	];
	const mails = [receipt, note, invoice, international, answer, pictured].map(letter =>
		compose(letter, keys, Date.now()),
	);
	const forged = Buffer.concat([Buffer.from('Subject: another\r\n'), mails[0] ?? Buffer.alloc(0)]);

	const verified = await verifyWithDkimpy(t, [...mails, forged], {
		[`mc1._domainkey.${domain}`]: dkimRecordValue(pems.rsa),
		[`mc2._domainkey.${domain}`]: dkimRecordValue(pems.ed25519),
	});
	if (!verified) {
		return;
	}

	const good = [
		{selector: 'mc1', algorithm: 'rsa-sha256', valid: true, error: null},
		{selector: 'mc2', algorithm: 'ed25519-sha256', valid: true, error: null},
	];
	for (const signatures of verified.slice(0, -1)) {
		t.deepEqual(
			signatures.map(({selector, algorithm, valid, error}) => ({selector, algorithm, valid, error})),
			good,
		);
		t.true(signatures.every(({headers}) => headers.includes('list-unsubscribe-post')));
	}
	t.deepEqual(
		verified.at(-1)?.map(({valid}) => valid),
		[false, false],
	);
});

test('dkimpy and OpenDKIM verify generated messages', async t => {
	const domain = 'shop.example';
	const pems = await generateSigningKeys();
	const keys = [
		importSigningKey({domain, selector: 'mc1', algorithm: 'rsa-sha256', privateKeyPem: pems.rsa}),
		importSigningKey({domain, selector: 'mc2', algorithm: 'ed25519-sha256', privateKeyPem: pems.ed25519}),
	];
	const dns = {
		[`mc1._domainkey.${domain}`]: dkimRecordValue(pems.rsa),
		[`mc2._domainkey.${domain}`]: dkimRecordValue(pems.ed25519),
	};
	const seed = Date.now();
	const mails = fc.sample(anyLetter, {numRuns: 100, seed}).map(letter => compose(letter, keys, Date.now()));
	const byDkimpy = await verifyWithDkimpy(t, mails, dns);
	for (const [n, signatures] of (byDkimpy ?? []).entries()) {
		t.deepEqual(
			signatures.map(({selector, valid, error}) => ({selector, valid, error})),
			['mc1', 'mc2'].map(selector => ({selector, valid: true, error: null})),
			`letter ${n} of seed ${seed}`,
		);
	}
	for (const [n, signatures] of (verifyWithOpendkim(t, mails, dns) ?? []).entries()) {
		t.deepEqual(signatures, ['mc1: pass', 'mc2: pass'], `letter ${n} of seed ${seed}`);
	}
});
