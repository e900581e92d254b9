import {type CliCommand, createProgram} from './program.ts';

// src/cli is the `mailctl` command: nouns with verbs (`key create`). A verb parses its options
// (options.ts), works on the store through a `Session`, beside a running daemon or without one, and prints for people
// or, with `--json`, for scripts. The folder relies on src/resources for everything that changes the store. It never
// talks to the daemon except to send, and holds no rule that the API does not have.

/** A noun, or a verb without a noun. `load` returns the function that adds its verbs, or its options and handler. */
type Entry = readonly [name: string, about: string, load: () => Promise<(command: CliCommand) => void>];

/** The commands, by their headings in `mailctl --help`. */
const groups: ReadonlyArray<readonly [heading: string, entries: readonly Entry[]]> = [
	[
		'Running the service:',
		[
			[
				'serve',
				'Run the daemon until SIGTERM or SIGINT',
				() => import('./serve.ts').then(each => each.serveCommand),
			],
			['init', 'Prepare the data folder', () => import('./init.ts').then(each => each.initCommand)],
			[
				'migrate',
				'Bring the store to the schema of this version',
				() => import('./init.ts').then(each => each.migrateCommand),
			],
			[
				'doctor',
				'Check the machine, DNS, delivery and bounce handling',
				() => import('./doctor.ts').then(each => each.doctorCommand),
			],
			[
				'config',
				'Effective settings and where they come from',
				() => import('./config.ts').then(each => each.configCommands),
			],
			[
				'certificate',
				'TLS certificates (MAILCTL_ACME)',
				() => import('../resources/certificates/cli.ts').then(each => each.certificateCommands),
			],
			[
				'secrets',
				'Keys that encrypt the store and sign links',
				() => import('./secrets.ts').then(each => each.secretsCommands),
			],
			['node', 'Daemons that share the store', () => import('./node.ts').then(each => each.nodeCommands)],
		],
	],
	[
		'Sending:',
		[
			[
				'send',
				'Send a message through the running daemon',
				() => import('../resources/messages/send-cli.ts').then(each => each.sendCommand),
			],
			[
				'message',
				'Messages, their recipients and attempts',
				() => import('../resources/messages/cli.ts').then(each => each.messageCommands),
			],
			[
				'queue',
				'Messages waiting for delivery',
				() => import('../resources/messages/queue-cli.ts').then(each => each.queueCommands),
			],
			[
				'template',
				'Templates and their versions',
				() => import('../resources/templates/cli.ts').then(each => each.templateCommands),
			],
			[
				'sample',
				'The sample template and sender of the first start',
				() => import('../resources/workspaces/sample-cli.ts').then(each => each.sampleCommands),
			],
			[
				'stats',
				'Delivery statistics of recent days, of all workspaces unless you name one',
				() => import('../resources/messages/stats-cli.ts').then(each => each.statsCommand),
			],
			[
				'tls',
				'TLS use of outbound and inbound mail',
				() => import('../resources/domains/tls-cli.ts').then(each => each.tlsCommand),
			],
		],
	],
	[
		'Setting up:',
		[
			[
				'workspace',
				'Workspaces: separate senders, templates, lists and keys',
				() => import('../resources/workspaces/cli.ts').then(each => each.workspaceCommands),
			],
			[
				'domain',
				'Sending domains, their DKIM keys and DNS records',
				() => import('../resources/domains/cli.ts').then(each => each.domainCommands),
			],
			[
				'sender',
				'Sender addresses',
				() => import('../resources/domains/senders-cli.ts').then(each => each.senderCommands),
			],
			['key', 'API keys', () => import('../resources/keys/cli.ts').then(each => each.keyCommands)],
			[
				'webhook',
				'Webhook endpoints and their deliveries',
				() => import('../resources/webhooks/cli.ts').then(each => each.webhookCommands),
			],
			[
				'smarthost',
				'Relays, and the events they report',
				() => import('../resources/smarthosts/cli.ts').then(each => each.smarthostCommands),
			],
			[
				'inbound',
				'Addresses that receive mail',
				() => import('../resources/received/cli.ts').then(each => each.inboundCommands),
			],
		],
	],
	[
		'Recipients:',
		[
			[
				'suppression',
				'Addresses that receive no mail',
				() => import('../resources/suppressions/cli.ts').then(each => each.suppressionCommands),
			],
			[
				'topic',
				'Topics that recipients can opt out of',
				() => import('../resources/topics/cli.ts').then(each => each.topicCommands),
			],
			[
				'contact',
				'What is stored about a recipient, and its erasure',
				() => import('../resources/contacts/cli.ts').then(each => each.contactCommands),
			],
			[
				'bounce',
				'Bounces and complaints, and how they are classified',
				() => import('../resources/received/bounce-cli.ts').then(each => each.bounceCommands),
			],
		],
	],
	[
		'Administration:',
		[
			[
				'user',
				'Dashboard users and their sign-in links',
				() => import('../resources/users/cli.ts').then(each => each.userCommands),
			],
			[
				'alert',
				'Alerts and their recipients',
				() => import('../resources/alerts/cli.ts').then(each => each.alertCommands),
			],
			[
				'audit',
				'The audit trail: who changed what, and when',
				() => import('../resources/audit/cli.ts').then(each => each.auditCommands),
			],
			[
				'export',
				'Print workspaces and their configuration as YAML',
				() => import('../resources/apply/cli.ts').then(each => each.exportCommand),
			],
			[
				'apply',
				'Change workspaces to match a YAML file',
				() => import('../resources/apply/cli.ts').then(each => each.applyCommand),
			],
			[
				'backup',
				'Write the store and its keys to one file',
				() => import('./backup.ts').then(each => each.backupCommand),
			],
			[
				'restore',
				'Put the store of a backup into the data folder',
				() => import('./backup.ts').then(each => each.restoreCommand),
			],
			[
				'bench',
				'Measure how fast this machine sends, or fill the store',
				() => import('./bench.ts').then(each => each.benchCommand),
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

const entries = groups.flatMap(([heading, inGroup]) =>
	inGroup.map(([name, about, load]) => ({name, about, load, heading})),
);

/**
 * Returns the tree of commands. Loading all of it takes longer than most commands run, so with `words`, the arguments
 * of a call, only the named commands get their verbs.
 */
export async function mailctl(words?: readonly string[]): Promise<CliCommand> {
	const program = createProgram().commandsGroup('Administration:').helpCommand(true);
	for (const {name, about, load, heading} of entries) {
		const command = program.command(name).description(about).helpCommand(false).helpGroup(heading);
		if (!words || words.includes(name)) {
			const fill = await load();
			fill(command);
			// A noun's example is that of its first verb.
			const [first] = command.commands;
			command.addHelpText('after', () => (first ? `\nExample:\n  ${first.example}` : ''));
		}
	}
	return program;
}
