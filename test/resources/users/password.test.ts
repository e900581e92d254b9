import test from 'ava';
import {hashPassword, isPassword, passwordProblem} from '../../../src/resources/users/log-in.ts';

/** The result of `hashPassword`, which is null only if too many wait. */
const hash = async (password: string) => (await hashPassword(password)) ?? '';
const email = 'ann@shop.example';

test('a password has 12 to 256 characters and does not contain the address', t => {
	t.regex(passwordProblem('x'.repeat(11), email) ?? '', /at least 12 characters/);
	t.is(passwordProblem('x'.repeat(12), email), null);
	t.is(passwordProblem('Zoë isst gern', email), null);
	t.regex(passwordProblem('🔑'.repeat(11), email) ?? '', /at least 12/, 'characters count, not octets');
	t.is(passwordProblem('x'.repeat(256), email), null);
	t.regex(passwordProblem('x'.repeat(257), email) ?? '', /at most 256/);
	t.regex(passwordProblem('My Ann@Shop.example!', email) ?? '', /must not contain your email address/);
});

test('a hash names its parameters, has its own salt, and matches only its password', async t => {
	const [one, two] = [await hash('correct horse battery'), await hash('correct horse battery')];
	t.regex(one, /^scrypt:32768:8:3:[\w-]{22}:[\w-]{43}$/);
	t.not(one, two);
	t.true(await isPassword('correct horse battery', one));
	t.false(await isPassword('correct horse batterx', one));
	t.false(await isPassword('', one));
	t.false(await isPassword('correct horse battery', null), 'there is no password');
	t.false(await isPassword('', ''), 'a damaged hash fits nothing');
});

test('differently composed letters are the same password', async t => {
	t.true(await isPassword('Zo\u00eb isst gern', await hash('Zoe\u0308 isst gern')));
});

test('rejects a megabyte of combining marks without normalizing it, and passwords over the limit', async t => {
	t.false(await isPassword(`a${'\u0315'.repeat(1 << 19)}${'\u0316'.repeat(1 << 19)}`, null));
	const longest = '\u{1d11e}'.repeat(256);
	const made = await hash(longest);
	t.true(await isPassword(longest, made));
	t.false(await isPassword(`${longest}a`, made));
});

test('verifies a hash with the parameters it names', async t => {
	// RFC 7914 §12, the second vector; its salt is `NaCl`, and 32 of its 64 octets are kept.
	const expected = Buffer.from('fdbabe1c9d3472007856e7190d01e9fe7c6ad7cbc8237830e77376634b373162', 'hex');
	const hash = `scrypt:1024:8:16:${Buffer.from('NaCl').toString('base64url')}:${expected.toString('base64url')}`;
	t.true(await isPassword('password', hash));
});

test.serial('checks ten of many concurrent passwords and rejects the others at once', async t => {
	const many = Array.from({length: 120}, () => isPassword('a guess', null));
	t.is(await hashPassword('correct horse battery'), null);
	const checked = await Promise.all(many);
	t.is(checked.filter(each => each === false).length, 10);
	t.is(checked.filter(each => each === null).length, 110);
	t.false(await isPassword('a guess', null), 'then there is room again');
});
