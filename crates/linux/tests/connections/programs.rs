//! What runs on the hosts.

use std::io::{self, Write};
use std::net::{Ipv6Addr, TcpListener, TcpStream};
use std::thread::sleep;
use std::time::Duration;

/// Runs a program until it is killed.
pub(super) fn run(words: &[&str]) {
    match *words {
        ["sink", port] => {
            let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port.parse().unwrap()));
            let (mut stream, _) = listener.unwrap().accept().unwrap();
            io::copy(&mut stream, &mut io::sink()).unwrap();
        }
        ["source", to, bytes] => {
            let mut stream = TcpStream::connect(to).unwrap();
            let bytes = vec![0; bytes.parse().unwrap()];
            stream.write_all(&bytes).unwrap();
            for_ever();
        }
        ["many", count] => {
            let listener = TcpListener::bind((Ipv6Addr::LOCALHOST, 7000)).unwrap();
            let to = listener.local_addr().unwrap();
            let pair = |_| (TcpStream::connect(to).unwrap(), listener.accept().unwrap());
            let _pairs: Vec<_> = (0..count.parse().unwrap()).map(pair).collect();
            println!("ready");
            for_ever();
        }
        ["spin"] => loop {
            std::hint::spin_loop();
        },
        _ => panic!("{words:?} is no program"),
    }
}

fn for_ever() -> ! {
    loop {
        sleep(Duration::from_secs(60));
    }
}
