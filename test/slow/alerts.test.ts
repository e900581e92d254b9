import test from 'ava';
import {prepareProgram} from '../helpers/daemon.ts';
import {startFakeMx} from '../helpers/fake-mx.ts';
import {waitFor} from '../helpers/wait.ts';

test('a daemon killed and restarted ten times during an incident sends one alert', async t => {
	const sink = await startFakeMx(t);
	const program = await prepareProgram(t, {MAILCTL_ALERT_SMTP_URL: `smtp://127.0.0.1:${sink.port}?tls=none`});
	let daemon = await program.serve();
	const {id} = await program.cli<{id: string}>(
		'alert',
		'add',
		'--mail',
		'ops@shop.example',
		'--on',
		'workspace_paused',
	);
	for (let n = 0; n < 10; n++) {
		await daemon.kill();
		daemon = await program.serve();
		if (n === 0) {
			await program.cli('workspace', 'pause', '--reason', 'bounces');
			// A daemon that dies before it is recorded leaves the message to the next.
			await waitFor('it rings, which is recorded', async () => {
				const [alert] = await program.cli<Array<{last_sent_at: string | null}>>('alert', 'list');
				return (alert?.last_sent_at ?? null) !== null;
			});
		}
	}
	await daemon.stop();
	await program.cli('alert', 'test', id);
	t.deepEqual(
		sink.received.map(({data}) => /^Subject: \[mailctl .*?\] (\w+)/m.exec(data.toString())?.[1]),
		['Began', 'Test'],
	);
});
