import {userInfo} from 'node:os';
import test from 'ava';
import {report} from '../../src/cli/fault.ts';

test('who may not use a file is named: the package’s command becomes the user of the service', t => {
	const error = Object.assign(new Error("EACCES: permission denied, mkdir 'templates'"), {code: 'EACCES'});
	const {lines, exitCode} = report(error);
	t.is(exitCode, 74);
	const wrong = `the user ${userInfo().username} may not access a file or folder (${error.message})`;
	t.deepEqual(lines, [`mailctl: ${wrong}, choose another one, or give this user access`]);
});
