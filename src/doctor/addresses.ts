import {type NetworkInterfaceInfo, networkInterfaces} from 'node:os';
import {isPublicAddress} from '../net/public-address.ts';

/** An address that mail leaves from, and the name said in EHLO there. */
export type OwnAddress = {readonly address: string; readonly hostname: string};

type Interfaces = NodeJS.Dict<NetworkInterfaceInfo[]>;

/** The public addresses of this machine's interfaces; empty behind NAT. */
export function publicInterfaceAddresses(interfaces: Interfaces = networkInterfaces()): string[] {
	return Object.values(interfaces)
		.flatMap(list => list ?? [])
		.filter(({internal, address}) => !internal && isPublicAddress(address))
		.map(({address}) => address);
}
