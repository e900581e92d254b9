import {userInfo} from 'node:os';
import test from 'ava';
import {report} from '../../src/cli/fault.ts';

test('names the user who lacks access to a file, since the packaged command runs as the service user', t => {
	const error = Object.assign(new Error("EACCES: permission denied, mkdir 'templates'"), {code: 'EACCES'});
	const {lines, exitCode} = report(error);
	t.is(exitCode, 74);
	const wrong = `the user ${userInfo().username} may not access a file or folder (${error.message})`;
	t.deepEqual(lines, [`mailctl: ${wrong}, choose another one, or give this user access`]);
});
