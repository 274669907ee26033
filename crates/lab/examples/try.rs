use longhaul_lab::run::*;
struct P;
impl Observer for P { fn progress(&mut self, p: &Progress) { if !matches!(p, Progress::Running{..}) { eprintln!("{p:?}") } } }
fn main() {
    let f = std::path::PathBuf::from(std::env::args().nth(1).unwrap());
    let plan = match longhaul_lab::plan::Plan::from_file(&f) { Ok(p) => p, Err(e) => { eprintln!("{e}"); std::process::exit(2) } };
    let o = RunOptions { out: std::env::args().nth(2).unwrap().into(), force: true, experiment_text: std::fs::read_to_string(&f).unwrap(), experiment_dir: f.canonicalize().unwrap().parent().unwrap().to_owned() };
    match run(&plan, &o, &mut P) { Ok(s) => println!("{}", s.to_json()), Err(e) => eprintln!("{e}") }
}
