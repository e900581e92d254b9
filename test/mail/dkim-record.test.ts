import {createPublicKey, generateKeyPairSync} from 'node:crypto';
import test from 'ava';
import fc from 'fast-check';
import {dkimRecordValue} from '../../src/compose/dkim.ts';
import {parseDkimRecord} from '../../src/mail/dkim-record.ts';

const {publicKey} = generateKeyPairSync('rsa', {modulusLength: 2048});
const spki = publicKey.export({type: 'spki', format: 'der'});
const base64 = spki.toString('base64');

test('reads the same key in any spelling', t => {
	for (const text of [
		`v=DKIM1; k=rsa; p=${base64}`,
		`p=${base64}`,
		`k=rsa;p=${base64.slice(0, 100)} ${base64.slice(100)};t=s`,
		`v=DKIM1;h=sha1:sha256;s=email:other;n=note;p=\r\n ${base64}`,
		`p=${publicKey.export({type: 'pkcs1', format: 'der'}).toString('base64')}`,
	]) {
		const record = parseDkimRecord(text);
		t.like(record, {algorithm: 'rsa', problem: null, isTesting: false}, text);
		t.true(record?.key?.equals(spki), text);
	}
});

test('reads the key from the record that mailctl proposes', t => {
	const ed25519 = generateKeyPairSync('ed25519').publicKey;
	const pem = ed25519.export({type: 'spki', format: 'pem'}).toString();
	const record = parseDkimRecord(dkimRecordValue(pem));
	t.is(record?.algorithm, 'ed25519');
	t.deepEqual(record?.key, ed25519.export({type: 'spki', format: 'der'}).subarray(-32));
	t.truthy(createPublicKey(pem));
});

test('reports revoked, invalid and testing keys', t => {
	t.like(parseDkimRecord('v=DKIM1; p='), {key: null, problem: null});
	t.like(parseDkimRecord(`p=${base64}; t=y:s`), {problem: null, isTesting: true});
	t.like(parseDkimRecord(`p=${base64}; v=DKIM1`), {problem: 'its v= is not DKIM1 at the beginning'});
	t.like(parseDkimRecord(`v=DKIM2; p=${base64}`), {problem: 'its v= is not DKIM1 at the beginning'});
	t.like(parseDkimRecord(`v=DKIM1; h=sha1; p=${base64}`), {problem: 'its h= excludes sha256'});
	t.like(parseDkimRecord(`v=DKIM1; s=tlsrpt; p=${base64}`), {problem: 'its s= excludes email'});
	t.like(parseDkimRecord('v=DKIM1; p=a*b'), {key: null, problem: 'its p= is not Base64'});
});

test('returns nothing for a text without a key', t => {
	for (const text of ['', 'v=DKIM1', 'v=spf1 -all', 'hello', 'p']) {
		t.is(parseDkimRecord(text), undefined, text);
	}
});

test('parses or rejects any text as a DKIM record', t => {
	const tag = fc.tuple(fc.constantFrom('v', 'k', 'p', 'h', 's', 't'), fc.string());
	fc.assert(
		fc.property(
			fc.oneof(
				fc.string(),
				fc.array(tag).map(tags => tags.map(pair => pair.join('=')).join(';')),
			),
			text => {
				const record = parseDkimRecord(text);
				t.true(record === undefined || typeof record.algorithm === 'string');
			},
		),
	);
});
