import {type CliCommand, createProgram} from './program.ts';

// src/cli is the `mailctl` command: nouns with verbs (`key create`). A verb parses its options (options.ts), works on
// the store through a `Session`, beside a running daemon or without one, and prints text for people, or JSON for
// scripts with `--json`. The folder relies on src/resources for everything that changes the store. It never
// talks to the daemon except to send, and holds no rule that the API does not have.

/** A noun, or a verb without a noun. `load` returns the function that adds its verbs, or its options and handler. */
type Entry = readonly [name: string, about: string, load: () => Promise<(command: CliCommand) => void>];

/** The commands, by their headings in `mailctl --help`. */
const groups: ReadonlyArray<readonly [heading: string, entries: readonly Entry[]]> = [
	[
		'Running the service:',
		[
			['serve', 'Run the daemon until SIGTERM or SIGINT', async () => (await import('./serve.ts')).serveCommand],
			['init', 'Prepare the data folder', async () => (await import('./init.ts')).initCommand],
			[
				'migrate',
				'Migrate the store to the schema of this version',
				async () => (await import('./init.ts')).migrateCommand,
			],
			[
				'doctor',
				'Check the machine, DNS, delivery and bounce handling',
				async () => (await import('./doctor.ts')).doctorCommand,
			],
			[
				'config',
				'Effective settings and where they come from',
				async () => (await import('./config.ts')).configCommands,
			],
			[
				'certificate',
				'TLS certificates (MAILCTL_ACME)',
				async () => (await import('../resources/certificates/cli.ts')).certificateCommands,
			],
			[
				'secrets',
				'Keys that encrypt the store and sign links',
				async () => (await import('./secrets.ts')).secretsCommands,
			],
			['node', 'Daemons that share the store', async () => (await import('./node.ts')).nodeCommands],
		],
	],
	[
		'Sending:',
		[
			[
				'send',
				'Send a message through the running daemon',
				async () => (await import('../resources/messages/send-cli.ts')).sendCommand,
			],
			[
				'message',
				'Messages, their recipients and attempts',
				async () => (await import('../resources/messages/cli.ts')).messageCommands,
			],
			[
				'queue',
				'Messages waiting for delivery',
				async () => (await import('../resources/messages/queue-cli.ts')).queueCommands,
			],
			[
				'template',
				'Templates and their versions',
				async () => (await import('../resources/templates/cli.ts')).templateCommands,
			],
			[
				'sample',
				'The sample template and sender of the first start',
				async () => (await import('../resources/workspaces/sample-cli.ts')).sampleCommands,
			],
			[
				'stats',
				'Delivery statistics of recent days, of all workspaces unless you name one',
				async () => (await import('../resources/messages/stats-cli.ts')).statsCommand,
			],
			[
				'tls',
				'TLS use of outbound and inbound mail',
				async () => (await import('../resources/domains/tls-cli.ts')).tlsCommand,
			],
		],
	],
	[
		'Setting up:',
		[
			[
				'workspace',
				'Workspaces: separate senders, templates, lists and keys',
				async () => (await import('../resources/workspaces/cli.ts')).workspaceCommands,
			],
			[
				'domain',
				'Sending domains, their DKIM keys and DNS records',
				async () => (await import('../resources/domains/cli.ts')).domainCommands,
			],
			[
				'sender',
				'Sender addresses',
				async () => (await import('../resources/domains/senders-cli.ts')).senderCommands,
			],
			['key', 'API keys', async () => (await import('../resources/keys/cli.ts')).keyCommands],
			[
				'webhook',
				'Webhook endpoints and their deliveries',
				async () => (await import('../resources/webhooks/cli.ts')).webhookCommands,
			],
			[
				'smarthost',
				'Relays, and the events they report',
				async () => (await import('../resources/smarthosts/cli.ts')).smarthostCommands,
			],
			[
				'inbound',
				'Addresses that receive mail',
				async () => (await import('../resources/received/cli.ts')).inboundCommands,
			],
		],
	],
	[
		'Recipients:',
		[
			[
				'suppression',
				'Addresses that receive no mail',
				async () => (await import('../resources/suppressions/cli.ts')).suppressionCommands,
			],
			[
				'topic',
				'Topics that recipients can opt out of',
				async () => (await import('../resources/topics/cli.ts')).topicCommands,
			],
			[
				'contact',
				'The data stored about a recipient, and its erasure',
				async () => (await import('../resources/contacts/cli.ts')).contactCommands,
			],
			[
				'bounce',
				'Bounces and complaints, and how they are classified',
				async () => (await import('../resources/received/bounce-cli.ts')).bounceCommands,
			],
		],
	],
	[
		'Administration:',
		[
			[
				'user',
				'Dashboard users and their sign-in links',
				async () => (await import('../resources/users/cli.ts')).userCommands,
			],
			[
				'alert',
				'Alerts and their recipients',
				async () => (await import('../resources/alerts/cli.ts')).alertCommands,
			],
			[
				'audit',
				'The audit trail: who changed what, and when',
				async () => (await import('../resources/audit/cli.ts')).auditCommands,
			],
			[
				'export',
				'Print workspaces and their configuration as YAML',
				async () => (await import('../resources/apply/cli.ts')).exportCommand,
			],
			[
				'apply',
				'Change workspaces to match a YAML file',
				async () => (await import('../resources/apply/cli.ts')).applyCommand,
			],
			[
				'backup',
				'Write the store and its keys to one file',
				async () => (await import('./backup.ts')).backupCommand,
			],
			[
				'restore',
				'Restore a backup into the data folder',
				async () => (await import('./backup.ts')).restoreCommand,
			],
			[
				'bench',
				'Measure how fast this machine sends, or fill the store',
				async () => (await import('./bench.ts')).benchCommand,
			],
			[
				'completion',
				'Print a completion script for the shell',
				async () => {
					const {completionCommand} = await import('./tree/tree.ts');
					return command => completionCommand(command, () => mailctl());
				},
			],
		],
	],
];

const commands = groups.flatMap(([heading, entries]) =>
	entries.map(([name, about, load]) => ({name, about, load, heading})),
);

/**
 * Returns the tree of commands. Loading all of it takes longer than most commands run, so with `words`, the arguments
 * of a call, only the named commands get their verbs.
 */
export async function mailctl(words?: readonly string[]): Promise<CliCommand> {
	const program = createProgram().commandsGroup('Administration:').helpCommand(true);
	for (const {name, about, load, heading} of commands) {
		const command = program.command(name).description(about).helpCommand(false).helpGroup(heading);
		if (!words || words.includes(name)) {
			const addVerbs = await load();
			addVerbs(command);
			// A noun's example is that of its first verb.
			const [firstVerb] = command.commands;
			command.addHelpText('after', () => (firstVerb ? `\nExample:\n  ${firstVerb.example}` : ''));
		}
	}
	return program;
}
