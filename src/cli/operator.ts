import {hostname, userInfo} from 'node:os';
import {processEnvironment} from '../config/process-env.ts';
import type {Operator} from '../mail/operator.ts';

/** Who runs the command. */
export function operator(): Operator {
	const sudoUser = processEnvironment().SUDO_USER;
	return {actor: `cli:${userName()}`, from: hostname(), ...(sudoUser && {sudoUser})};
}

function userName(): string {
	try {
		return userInfo().username;
	} catch {
		return `uid ${process.getuid?.()}`; // A user without an entry in the system's list, as in a container.
	}
}
